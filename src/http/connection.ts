/**
 * One open connection of our own server: the exchange that began last on it,
 * and how long it may stand still.
 *
 * Node sets, refreshes and ends a timer with every request where it is told of such times, which
 * takes 3 to 6 % of creates (64 to 1,024 connections; test/bench/results). So it is not told, and a
 * connection gets a timer, Node's own, when nothing began or ended on it between two looks. Who
 * looks is http/connections.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Pending } from "./body.ts";
import { DirectRequest } from "./direct-request.ts";

/** In milliseconds. */
export interface StandstillTimes {
  /** Between an answer and the next request. */
  readonly idleMs: number;
  /** While an answer is due, or before the first request. */
  readonly stallMs: number;
}

/**
 * A connection whose waiting requests hold more than this is not read until their answers leave:
 * what the client sends waits in its own socket. Node hands out whole packets, so one of up to
 * 64 KiB comes on top.
 */
const WAITING_BYTES_MAX = 64 * 1024;

/** For the rest of a request whose time ran out while we did not read. */
const LATE_MS = 10_000;

/** Node's own margin: who comes within what the answer told does not meet the close. */
const IDLE_MARGIN_MS = 1000;

/** Node's, without a word in its documentation: what the answer tells of `idleMs`. */
interface KeepAliveTold {
  _keepAliveTimeout: number;
}

/** What an answer asks of a request whose head was judged. */
const KEPT_HEADERS = [
  "origin",
  "x-request-id",
  "content-length",
  "transfer-encoding",
  "expect",
] as const;

/** Whether a request was judged by its head; nothing more of it is asked than `KEPT_HEADERS`. */
function isCollecting(req: IncomingMessage | undefined): boolean {
  return req instanceof DirectRequest && req.isCollecting;
}

/** Whether a request was answered that had no good token: refused with 401, or a preflight. */
function isForAnybody({ statusCode, headersSent }: ServerResponse): boolean {
  return (statusCode === 401 || statusCode === 204) && headersSent;
}

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
  readonly #backlog: Pending;
  /** Bytes of each request that waits for the answer to an earlier one, in their order. */
  readonly #waiting: number[] = [];
  #waitingBytes = 0;
  /** What had been read when a request was answered that anybody may send. */
  #refusedBytes: number | undefined;
  /** Reading was stopped before, so a listener pauses the socket again if others resume it. */
  #isGuarded = false;
  #isHeld = false;
  /** Ends a request whose time ran out while reading was stopped. */
  #postponed: (() => void) | undefined;

  /** @param backlog what waiting requests count against, on all connections of a server together. */
  constructor(socket: Socket, times: StandstillTimes, backlog: Pending) {
    this.#socket = socket;
    this.#times = times;
    this.#backlog = backlog;
    socket.on("timeout", () => socket.destroy()); // Node does, but not behind CONNECT
  }

  /** A request came, before which everything that came was to be carried out. */
  begin(req: IncomingMessage, res: ServerResponse): void {
    this.req = req;
    this.res = res;
    this.unanswered++;
    (res as unknown as KeepAliveTold)._keepAliveTimeout = this.#times.idleMs;
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

  /** Whether reading is stopped, so that nothing of what the client sends arrives. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /**
   * The time for the request that is being received ran out while reading was stopped: the client
   * may have sent all of it. It gets `LATE_MS` once reading goes on, and then `refuse` is called.
   */
  postpone(refuse: () => void): void {
    const { req } = this;
    const isInBody = req?.complete === false;
    this.#postponed = () => {
      const isOver = this.req !== req || (isInBody && req?.complete === true);
      if (!isOver) refuse();
    };
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
    this.#socket.resume();
    if (this.#postponed === undefined) return;
    setTimeout(this.#postponed, LATE_MS).unref();
    this.#postponed = undefined;
  }

  /** Node resumes the socket after each message that it has parsed; so it is paused again each time. */
  #hold(): void {
    this.#isHeld = true;
    this.#socket.pause();
    if (this.#isGuarded) return;
    this.#isGuarded = true;
    this.#socket.on("resume", () => {
      if (this.#isHeld) this.#socket.pause();
    });
  }

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
    const isIdle = this.req !== undefined && this.unanswered === 0;
    if (isIdle || isCollecting(this.req)) this.#dropHeaders();
    this.#isTimed = true;
    const { idleMs, stallMs } = this.#times;
    this.#socket.setTimeout(isIdle ? idleMs + IDLE_MARGIN_MS : stallMs);
  }

  /** The last request is kept after its answer, and a create until its body has come and is durable. */
  #dropHeaders(): void {
    const req = this.req as IncomingMessage;
    const kept = KEPT_HEADERS.map((name) => [name, req.headers[name]]);
    req.rawHeaders = [];
    req.headers = Object.fromEntries(kept.filter(([, value]) => value !== undefined));
    req.headersDistinct = {}; // Node would look for as many raw headers as there were
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
