/**
 * The open connections of our own server: what is still carried out on each, what may wait on it, and
 * how long it may stand still.
 *
 * Invariants. Answers leave in the order of their requests: a refusal of what was pipelined after a
 * good request waits for that one's answer. After an answer that closes the connection nothing is
 * carried out, and one request kept at most.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import v8 from "node:v8";
import { PlantStoreError } from "../core/errors.ts";
import {
  afterAnswer,
  answerAndClose,
  answerSocket,
  closeAfter,
  ignoreFollowing,
  isLastAnswer,
  Lingering,
} from "./answer.ts";
import { Authenticator } from "./bearer.ts";
import { DirectRequest } from "./body.ts";
import { Budget, heldBytes, overloaded } from "./budget.ts";
import { Cors } from "./cors.ts";
import { Listener, type ListenerOptions } from "./listener.ts";
import { errorReply, type Reply } from "./reply.ts";
import { describeParserFault, findFramingFault } from "./request-head.ts";

/** In milliseconds. */
export interface StandstillTimes {
  /** Between an answer and the next request. */
  readonly idleMs: number;
  /** While an answer is due, or before the first request. */
  readonly stallMs: number;
}

/**
 * A connection whose waiting requests hold more than this, and up to one packet of 64 KiB, is not
 * read until their answers leave: what the client sends waits in its own socket.
 */
const WAITING_BYTES_MAX = 64 * 1024;

/** For the rest of a request whose time ran out while we did not read. */
const LATE_MS = 10_000;

/** Node's own margin: a client that comes within the time in the answer does not meet the close. */
const IDLE_MARGIN_MS = 1000;

/** The headers that an answer needs of a request whose head was judged. */
const KEPT_HEADERS = [
  "origin",
  "x-request-id",
  "content-length",
  "transfer-encoding",
  "expect",
] as const;

/** Whether a request was answered that had no good token: refused with 401, or a preflight. */
function isForAnybody({ statusCode, headersSent }: ServerResponse): boolean {
  return (statusCode === 401 || statusCode === 204) && headersSent;
}

/**
 * One connection: the request that began last on it, and those that wait.
 *
 * Node sets, refreshes and ends a timer with every request, which takes 3 to 6 % of creates. Here a
 * connection gets a timer, Node's own, if nothing began or ended on it between two looks.
 */
export class Connection {
  /** Requests whose answers are not sent yet. */
  unanswered = 0;
  req?: IncomingMessage;
  res?: ServerResponse;
  /** The parser gave up; it reports the same fault again for whatever still comes. */
  isBroken = false;
  readonly #socket: Socket;
  readonly #times: StandstillTimes;
  /** Something began or ended since the last look. */
  #isActive = true;
  #isTimed = false;
  /** What had been read when a drain looked last. */
  #drainedBytes: number | undefined;
  readonly #backlog: Budget;
  /** Bytes of each request that waits for the answer to an earlier one, in their order. */
  readonly #waiting: number[] = [];
  #waitingBytes = 0;
  /** What had been read when a request was answered that anybody may send. */
  #refusedBytes: number | undefined;
  /** Reading is stopped, so nothing of what the client sends arrives. */
  #isHeld = false;
  /** Ends a request whose time ran out while reading was stopped. */
  #postponed: (() => void) | undefined;

  /** @param backlog what waiting requests borrow from, on all connections of a server together. */
  constructor(socket: Socket, times: StandstillTimes, backlog: Budget) {
    this.#socket = socket;
    this.#times = times;
    this.#backlog = backlog;
    socket.on("timeout", () => socket.destroy()); // Node does, but not after CONNECT
  }

  /** A request came, before which everything that came was to be carried out. */
  begin(req: IncomingMessage, res: ServerResponse): void {
    this.req = req;
    this.res = res;
    this.unanswered++;
    // Not documented: what Node writes into the answer.
    (res as unknown as { _keepAliveTimeout: number })._keepAliveTimeout = this.#times.idleMs;
    res.on("close", this.#noteAnswered);
    this.#noteActivity();
  }

  /**
   * Counts the next request, which comes before the answers to earlier ones have left.
   *
   * @returns whether there is room for it; if not, it is to be the last on its connection.
   */
  wait(bytes: number): boolean {
    const hasRoom = this.#backlog.take(bytes);
    this.#waiting.push(hasRoom ? bytes : 0);
    if (!hasRoom) return false;
    this.#waitingBytes += bytes;
    if (this.#waitingBytes > WAITING_BYTES_MAX) this.#hold();
    return true;
  }

  /** The connection is closed; answers that wait are never sent. */
  end(): void {
    this.#waiting.length = 0;
    this.#giveBack(this.#waitingBytes);
  }

  /**
   * The time for the request that is being received ran out. If reading is stopped, the client may
   * have sent all of it: it gets `LATE_MS` once reading goes on, and then `refuse` is called.
   *
   * @returns whether reading is stopped.
   */
  postpone(refuse: () => void): boolean {
    if (!this.#isHeld) return false;
    const { req } = this;
    const isInBody = req?.complete === false;
    this.#postponed = () => {
      const isOver = this.req !== req || (isInBody && req?.complete === true);
      if (!isOver) refuse();
    };
    return true;
  }

  readonly #noteAnswered = () => {
    this.unanswered--;
    if (this.#waiting.length > 0) this.#giveBack(this.#waiting.shift() as number);
    this.#noteActivity();
  };

  #giveBack(bytes: number): void {
    this.#backlog.giveBack(bytes);
    this.#waitingBytes -= bytes;
    if (!this.#isHeld || this.#waitingBytes > WAITING_BYTES_MAX / 2) return;
    this.#isHeld = false;
    this.#socket.off("resume", this.#pause).resume();
    if (this.#postponed !== undefined) setTimeout(this.#postponed, LATE_MS).unref();
    this.#postponed = undefined;
  }

  #hold(): void {
    if (this.#isHeld) return;
    this.#isHeld = true;
    // Node resumes the socket after each message that it has parsed.
    this.#socket.on("resume", this.#pause).pause();
  }

  readonly #pause = () => void this.#socket.pause();

  /** Notes how far the client had sent, if the request that began last was answered by now. */
  noteRefusal(res: ServerResponse): void {
    if (isForAnybody(res)) this.#refusedBytes = this.#socket.bytesRead;
  }

  /**
   * Whether a request that comes now was sent before the client had the last answer, one that
   * anybody gets. Ordinary clients wait for that answer; so the connection is to be closed.
   */
  get isFlooded(): boolean {
    if (this.res === undefined || !isForAnybody(this.res)) return false;
    // Node may end a request amid a packet: its answer has left, and the next one follows.
    return this.unanswered > 0 || this.#socket.bytesRead === this.#refusedBytes;
  }

  /** Has Node watch a connection on which nothing began or ended since the last look. */
  look(): void {
    if (this.#isTimed) return;
    if (this.#isActive) {
      this.#isActive = false;
      return;
    }
    const { req } = this;
    const isIdle = req !== undefined && this.unanswered === 0;
    const isCollecting = req instanceof DirectRequest && req.isCollecting;
    if (isIdle || isCollecting) dropHeaders(req);
    this.#isTimed = true;
    const { idleMs, stallMs } = this.#times;
    this.#socket.setTimeout(isIdle ? idleMs + IDLE_MARGIN_MS : stallMs);
  }

  /**
   * Closes a connection that owes no answer and read nothing since the last call: half a request
   * head is no request. A connection that closes already is left to send what it has.
   *
   * @param isLate whether it is closed though it read something.
   */
  closeIfQuiet(isLate: boolean): void {
    const { bytesRead, writableEnded } = this.#socket;
    const isQuiet = this.#drainedBytes === bytesRead;
    this.#drainedBytes = bytesRead;
    if ((isQuiet || isLate) && this.unanswered === 0 && !writableEnded) this.#socket.destroy();
  }

  #noteActivity(): void {
    this.#isActive = true;
    if (!this.#isTimed) return;
    this.#isTimed = false;
    this.#socket.setTimeout(0);
  }
}

/** The last request is kept after its answer, and a create until its body has come and is durable. */
function dropHeaders(req: IncomingMessage): void {
  const kept = KEPT_HEADERS.map((name) => [name, req.headers[name]]);
  req.rawHeaders = [];
  req.headers = Object.fromEntries(kept.filter(([, value]) => value !== undefined));
  req.headersDistinct = {}; // Node would look for as many raw headers as there were
}

/** So many requests wait for their answers on one connection at most: each costs some 6 KiB. */
const UNANSWERED_MAX = 1000;
/**
 * For requests that wait for the answer to an earlier one, on all connections together: an eighth of
 * the heap, so that thousands of clients may each send ten ahead.
 */
function backlogBytesMax(): number {
  return Math.max(32 * 1024 * 1024, v8.getHeapStatistics().heap_size_limit / 8);
}
/** For the answers before the last one to be read. */
const UNANSWERED_GRACE_MS = 1000;

/** All connections of a server, and what a mounted listener leaves to the server it is mounted in. */
export class Connections {
  readonly #authenticator: Authenticator;
  readonly #cors: Cors | undefined;
  readonly #lingering = new Lingering();
  readonly #listener: Listener;
  readonly #times: StandstillTimes;
  readonly #lookMs: number;
  readonly #connections = new Map<Socket, Connection>();
  readonly #backlog = new Budget(backlogBytesMax());
  /** While there are any. */
  #looking: NodeJS.Timeout | undefined;
  #isDraining = false;

  /** @param lookMs how often connections that stand still are looked for */
  constructor(options: ListenerOptions, times: StandstillTimes, lookMs: number) {
    this.#times = times;
    this.#lookMs = lookMs;
    this.#authenticator = new Authenticator(options.tokens);
    this.#cors = Cors.of(options.corsOrigins);
    this.#listener = new Listener(options, this.#lingering);
  }

  add(socket: Socket): void {
    this.#connections.set(socket, new Connection(socket, this.#times, this.#backlog));
    this.#looking ??= setInterval(() => this.#look(), this.#lookMs);
    socket.once("close", () => this.#remove(socket));
  }

  #remove(socket: Socket): void {
    this.#connections.get(socket)?.end();
    this.#connections.delete(socket);
    if (this.#connections.size > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #look(): void {
    for (const connection of this.#connections.values()) connection.look();
  }

  handle(req: IncomingMessage, res: ServerResponse, sendContinue?: () => void): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined) return;
    if (connection.isBroken || isLastAnswer(connection.res)) {
      ignoreFollowing(req);
      req.resume();
      return;
    }
    if (connection.isFlooded) {
      this.#closeFlooded(connection, req);
      return;
    }
    if (connection.unanswered > 0 && !this.#follow(connection, req, res)) return;
    connection.begin(req, res);
    if (connection.unanswered >= UNANSWERED_MAX) {
      closeAfter(res);
      setTimeout(() => req.socket.destroy(), UNANSWERED_GRACE_MS).unref();
    }
    if (this.#isDraining) closeAfter(res);
    const fault = findFramingFault(req);
    if (fault === undefined) this.#listener.handle(req, res, sendContinue);
    else this.#answerAndClose(req, res, fault);
    connection.noteRefusal(res);
  }

  /** Closes a connection after its last answer, and has nothing more carried out on it. */
  #closeFlooded(connection: Connection, req: IncomingMessage): void {
    ignoreFollowing(req);
    connection.isBroken = true;
    afterAnswer(connection.res, () => this.#lingering.close(req.socket));
  }

  /** A request that came before the answers to earlier ones have left: whether it may wait too. */
  #follow(connection: Connection, req: IncomingMessage, res: ServerResponse): boolean {
    if (req.socket.errored) {
      ignoreFollowing(req); // the client has gone
      return false;
    }
    if (connection.wait(heldBytes(req))) return true;
    connection.begin(req, res);
    this.#answerAndClose(req, res, overloaded());
    return false;
  }

  /** The parser gave up on what came last, or the time for it ran out. */
  refuse(socket: Socket, cause: NodeJS.ErrnoException): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.isBroken) return;
    if (this.#lingering.has(socket)) return; // answered: its bounds are those of its lingering
    const isLate = cause.code === "ERR_HTTP_REQUEST_TIMEOUT";
    if (isLate && connection.postpone(() => this.refuse(socket, cause))) return;
    connection.isBroken = true;
    const fault = describeParserFault(cause);
    if (fault === undefined || !socket.writable) {
      socket.destroy();
      return;
    }
    const { req, res } = connection;
    const isInBody = req?.complete === false;
    const { rawPacket } = cause as { rawPacket?: Buffer };
    const last = req?.headers.origin;
    const origin = isInBody ? last : this.#cors?.guessOrigin(rawPacket, last);
    const reply = this.#errorReply(fault, origin);
    // What follows the answer that closes the connection does not count.
    if (isLastAnswer(res) && (res?.headersSent === true || !isInBody)) return;
    if (req === undefined || res === undefined || !isInBody) {
      afterAnswer(res, () => answerSocket(socket, reply, this.#lingering));
    } else if (res.headersSent) {
      socket.destroy();
    } else {
      // The fault is in this request's body; its answer has its place in the order.
      answerAndClose({ req, res, lingering: this.#lingering }, reply);
      if (req instanceof DirectRequest) req.stopCollecting();
    }
  }

  #answerAndClose(req: IncomingMessage, res: ServerResponse, fault: PlantStoreError): void {
    const reply = this.#errorReply(fault, req.headers.origin);
    answerAndClose({ req, res, lingering: this.#lingering }, reply);
  }

  #errorReply(fault: unknown, origin: string | undefined): Reply {
    const reply = errorReply(fault);
    return this.#cors?.markReply(reply, origin) ?? reply;
  }

  /** CONNECT names no path of ours, so beyond the token there is nothing to find. */
  async refuseConnect(req: IncomingMessage, socket: Socket): Promise<void> {
    socket.on("error", () => socket.destroy()); // the parser has let go of the socket
    const connection = this.#connections.get(socket);
    if (connection !== undefined) connection.unanswered++; // for good: its answer is the last
    const fault = findFramingFault(req) ?? (await this.#judgeConnect(req));
    const reply = this.#errorReply(fault, req.headers.origin);
    afterAnswer(connection?.res, () => answerSocket(socket, reply, this.#lingering, req));
  }

  async #judgeConnect(req: IncomingMessage): Promise<unknown> {
    try {
      await this.#authenticator.authenticate(req);
    } catch (error) {
      return error;
    }
    return new PlantStoreError("not_found", "CONNECT: expected a request for a plant store");
  }

  /**
   * Closes connections that owe no answer: Node takes a silent one, or half a head, for busy.
   *
   * @param isLate whether they are closed though something still comes.
   */
  closeQuiet(isLate = false): void {
    for (const connection of this.#connections.values()) connection.closeIfQuiet(isLate);
  }

  /** Cuts every connection: those of CONNECT Node has let go of, and yet its server waits for them. */
  cutAll(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
  }

  /** From now on the last answer of each connection closes it. */
  closeAfterAnswers(): void {
    this.#isDraining = true;
    for (const { res } of this.#connections.values()) closeAfter(res);
  }
}
