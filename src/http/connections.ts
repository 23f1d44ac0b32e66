/**
 * The open connections of our own server, and what is still carried out on each.
 *
 * Invariants. Answers leave in the order of their requests: a refusal of what
 * was pipelined behind a good request waits for that one's answer. Behind an answer
 * that closes the connection nothing is carried out, and one request kept at most.
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
import { heldBytes, overloaded, Pending } from "./body.ts";
import { Connection, type StandstillTimes } from "./connection.ts";
import { Cors } from "./cors.ts";
import { DirectRequest } from "./direct-request.ts";
import { describeParserFault, findFramingFault } from "./framing.ts";
import { createHandler, type Handler, type ListenerOptions } from "./listener.ts";
import { errorReply, type Reply } from "./reply.ts";

/**
 * More requests than this never wait for their answers on one connection: each
 * costs some 6 KiB, and one packet may hold two thousand of them.
 */
const UNANSWERED_MAX = 1000;
/**
 * What requests that wait for the answer to an earlier one hold, on all connections together: an
 * eighth of the heap, so that thousands of clients may each send ten ahead.
 */
function backlogBytesMax(): number {
  return Math.max(32 * 1024 * 1024, v8.getHeapStatistics().heap_size_limit / 8);
}
/** For the answers before the last one to be read. */
const UNANSWERED_GRACE_MS = 1000;

/** Ends a connection on which requests come and come while their answers are not read. */
function endUnread(socket: Socket, res: ServerResponse): void {
  closeAfter(res);
  setTimeout(() => socket.destroy(), UNANSWERED_GRACE_MS).unref();
}

/**
 * A server of our own: the listener, and the limits and answers that the
 * listener in somebody else's server leaves to that one.
 */
export class Connections {
  readonly #authenticator: Authenticator;
  readonly #cors: Cors | undefined;
  readonly #lingering = new Lingering();
  readonly #handle: Handler;
  readonly #times: StandstillTimes;
  readonly #lookMs: number;
  readonly #connections = new Map<Socket, Connection>();
  readonly #backlog = new Pending(backlogBytesMax(), Number.POSITIVE_INFINITY);
  /** While there are any. */
  #looking: NodeJS.Timeout | undefined;
  #isDraining = false;

  /** @param lookMs how often connections that stand still are looked for */
  constructor(options: ListenerOptions, times: StandstillTimes, lookMs: number) {
    this.#times = times;
    this.#lookMs = lookMs;
    this.#authenticator = new Authenticator(options.tokens);
    this.#cors = Cors.of(options.corsOrigins);
    this.#handle = createHandler(options, this.#lingering);
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
    if (connection.unanswered >= UNANSWERED_MAX) endUnread(req.socket, res);
    if (this.#isDraining) closeAfter(res);
    const fault = findFramingFault(req);
    if (fault === undefined) this.#handle(req, res, sendContinue);
    else answerAndClose(req, res, this.#errorReply(fault, req.headers.origin), this.#lingering);
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
    answerAndClose(req, res, this.#errorReply(overloaded(), req.headers.origin), this.#lingering);
    return false;
  }

  /** The parser gave up on what came last, or the time for it ran out. */
  refuse(socket: Socket, cause: NodeJS.ErrnoException): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.isBroken) return;
    if (this.#lingering.has(socket)) return; // answered: its bounds are those of its lingering
    if (cause.code === "ERR_HTTP_REQUEST_TIMEOUT" && connection.isHeld) {
      connection.postpone(() => this.refuse(socket, cause)); // we did not read, though it sent
      return;
    }
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
      answerAndClose(req, res, reply, this.#lingering);
      if (req instanceof DirectRequest) req.stopCollecting();
    }
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
