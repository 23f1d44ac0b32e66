/**
 * Writes an answer so that the client receives it, also if the server did not read the whole request.
 *
 * The server reads and discards a small rest of a body, and the connection stays open. Before a
 * large or unknown rest the connection closes, but not at once: closing a socket with unread bytes
 * resets it, and the reset can overtake the answer. So the answer leaves, the server closes its
 * side, and for a while it discards what the client still sends (RFC 9112 section 9.6).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { encodeReply, type Reply, writeReplyHead } from "./reply.ts";
import { nameRequest } from "./request-id.ts";
import { publishAnswer } from "./request-message.ts";
import { trySendWhole } from "./whole-answer.ts";

/** Reading a rest of a body up to this length costs less than a new connection. */
const DISCARD_BYTES_MAX = 64 * 1024;

/** How long connections stay open only to discard what the client still sends. */
interface LingerBounds {
  /** So many connections at most; the next ones close at once. */
  readonly connectionsMax: number;
  /** In all. */
  readonly totalMs: number;
  /** From one packet of the client to its next. */
  readonly pauseMs: number;
  /** Of one connection. */
  readonly bytesMax: number;
}

/** Both times are those of nginx: 4 MiB arrive within them at 200 kB/s. */
const LINGER_BOUNDS: LingerBounds = {
  connectionsMax: 1024,
  totalMs: 30_000,
  pauseMs: 5_000,
  bytesMax: 64 * 1024 * 1024,
};

/**
 * The connections of one listener or server that are answered and closed on our side, while their
 * clients still send. Knows nothing of HTTP.
 */
export class Lingering {
  readonly #bounds: LingerBounds;
  readonly #sockets = new Set<Socket>();
  #isOver = false;

  constructor(bounds: Partial<LingerBounds> = {}) {
    this.#bounds = { ...LINGER_BOUNDS, ...bounds };
  }

  /** Sends a last text, and closes the connection when the client does, or at a bound. */
  close(socket: Socket, text = ""): void {
    if (socket.destroyed) return;
    socket.end(text);
    if (this.#isOver || this.#sockets.size >= this.#bounds.connectionsMax) {
      Socket.prototype.destroySoon.call(socket);
    } else this.#discard(socket);
  }

  /** Cuts every connection that lingers; from now on `close` closes at once. */
  end(): void {
    this.#isOver = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #discard(socket: Socket): void {
    const { totalMs, pauseMs, bytesMax } = this.#bounds;
    const cut = () => socket.destroy();
    const total = setTimeout(cut, totalMs).unref();
    const pause = setTimeout(cut, pauseMs).unref();
    let bytes = 0;
    this.#sockets.add(socket);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      clearTimeout(total);
      clearTimeout(pause);
    });
    // The HTTP parser receives nothing more: parsing costs more than discarding.
    socket.removeAllListeners("data");
    socket.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) cut();
      else pause.refresh();
    });
    socket.resume();
    // The parser may have read without the stream and paused; the stream believes that it reads.
    socket._read(0);
  }
}

/**
 * Answers a request whose body may be unread.
 *
 * @returns the request's id, as the answer names it; `undefined` if the request was answered before.
 */
export function answer(
  req: IncomingMessage,
  res: ServerResponse,
  reply: Reply,
  lingering: Lingering,
): string | undefined {
  if (res.headersSent) return undefined; // the connection's own failure was reported first
  if (hasRest(req) && (isLastAnswer(res) || isLargeRest(req))) closeAfterEnd(req, res, lingering);
  const requestId = nameRequest(req);
  if (!trySendWhole(res, reply, requestId)) {
    writeReplyHead(res, reply, requestId);
    // Head and body in one write; Node discards a small rest by itself.
    res.end(reply.body);
  }
  publishAnswer(reply, requestId, req);
  return requestId;
}

/** Answers, and closes the connection whatever else comes on it. */
export function answerAndClose(
  req: IncomingMessage,
  res: ServerResponse,
  reply: Reply,
  lingering: Lingering,
): void {
  if (res.headersSent) return;
  closeAfterEnd(req, res, lingering);
  answer(req, res, reply, lingering);
}

/**
 * Has the connection linger after the answer, and nothing that follows carried out on it.
 *
 * Node calls `destroySoon` at the end of a last answer, and that resets a client that still sends.
 * Where a response is no connection's (Fastify's `inject`, node-mocks-http), nothing calls it.
 */
function closeAfterEnd(req: IncomingMessage, res: ServerResponse, lingering: Lingering): void {
  const { socket } = req;
  // The socket of an HTTP/2 request is the session's, which has other streams.
  if (req.httpVersionMajor > 1 || typeof socket?.destroySoon !== "function") return;
  res.setHeader("Connection", "close");
  ignoreFollowing(req);
  socket.destroySoon = () => lingering.close(socket);
  // Node forgets a request that was answered; what reads its body waits for a close.
  socket.once("close", () => req.destroy());
}

/** Node's, without a word in its documentation: what takes each request whose head was parsed. */
interface Parser {
  onIncoming: (req: IncomingMessage & { upgrade: boolean }) => number;
}

/**
 * Reads and discards the body of a request, and has Node hand out no other request of its
 * connection: Node keeps some KiB of each until the connection is gone, and until a connection is
 * closed a client could fill the memory.
 */
export function ignoreFollowing(req: IncomingMessage): void {
  req.resume();
  const { parser } = req.socket as { parser?: Parser | null };
  if (parser === undefined || parser === null) return;
  parser.onIncoming = (next) => {
    next.upgrade = false; // else Node hands the connection over
    next.resume();
    return 0;
  };
}

/** Answers on a connection that has no request to answer, or none with a response, and closes it. */
export function answerSocket(
  socket: Socket,
  reply: Reply,
  lingering: Lingering,
  req?: IncomingMessage,
): void {
  const requestId = nameRequest(req);
  lingering.close(socket, encodeReply(reply, requestId));
  publishAnswer(reply, requestId, req);
}

/** Tells of a request that broke off, unless it was answered before. */
export function answerNobody(req: IncomingMessage, res: ServerResponse): void {
  if (!res.headersSent) publishAnswer({ status: 0, cut: true }, nameRequest(req), req);
}

/** Whether the client may still send some of the body. A test's stand-in for a request says nothing. */
function hasRest({ complete }: IncomingMessage): boolean {
  return complete === false;
}

/** Whether more of the body is to come than is worth reading. */
function isLargeRest({ headers }: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": coding, expect } = headers;
  // A client that waits for 100 Continue may or may not send the body after an error.
  if (coding !== undefined || expect !== undefined) return true;
  return Number(length ?? 0) > DISCARD_BYTES_MAX;
}

/** Has the connection close after this answer, if that can still be said. */
export function closeAfter(res: ServerResponse | undefined): void {
  if (res !== undefined && !res.headersSent) res.setHeader("Connection", "close");
}

/** Whether the connection closes after this answer. */
export function isLastAnswer(res: ServerResponse | undefined): boolean {
  return res !== undefined && (!res.shouldKeepAlive || res.getHeader("Connection") === "close");
}

/** Runs `then` once the answer, and with it every earlier one, is written. */
export function afterAnswer(res: ServerResponse | undefined, then: () => void): void {
  if (res === undefined || res.writableFinished) then();
  else res.once("finish", then);
}
