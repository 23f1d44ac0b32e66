/**
 * The answers that clients see, and how each one reaches its client, even if the server did not read the
 * whole request.
 *
 * Invariants. Every failure has the body `{"error": int32, "message": string}` and nothing else
 * (docs/api.md). A client sees the message of a request
 * code only; any other failure is answered `internal`, so no path or stack gets out.
 *
 * The server reads and discards a small rest of a body, and the connection stays open. Before a
 * large or unknown rest it closes, but not at once: closing a socket with unread bytes resets it, and
 * the reset can overtake the answer. So the server closes its side after the answer, and for a while
 * discards what the client still sends (RFC 9112 section 9.6).
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { Socket } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { ERRORS, PlantStoreError, type RequestErrorCode, statusOf } from "../core/errors.ts";
import type { Scope } from "../core/services.ts";
import { encodeJsonString } from "../core/text.ts";
import {
  closeBy,
  dropBody,
  hasStopped,
  ignoreFollowing,
  resumeReading,
  sendAsOneText,
  willClose,
} from "./node-internals.ts";
import { type Noted, nameRequest, peerOf, publishAnswer } from "./request-message.ts";

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Text, or the bytes of text in UTF-8. */
  readonly body: string | Uint8Array;
  /** The number in an Error body. */
  readonly error?: number;
  /** The message of a 4xx. */
  readonly reason?: string | undefined;
}

interface Failure {
  readonly status: number;
  readonly error: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** RFC 6750 section 3. */
const CHALLENGE = 'Bearer realm="plant-store"';
const ASK_TOKEN = { "WWW-Authenticate": CHALLENGE };
const ASK_OTHER_TOKEN = { "WWW-Authenticate": `${CHALLENGE}, error="invalid_token"` };
const RETRY = { "Retry-After": "1" };

/** `insufficient_scope` and `method_not_allowed` get theirs in http/listener. */
const FAILURE_HEADERS: Partial<Record<RequestErrorCode, Failure["headers"]>> = {
  missing_token: ASK_TOKEN,
  invalid_token: ASK_OTHER_TOKEN,
  // RFC 9110 section 15.5.16: say what would have been accepted.
  unsupported_media_type: { Accept: "application/json" },
  unsupported_encoding: { "Accept-Encoding": "identity" },
  overloaded: RETRY,
  write_failed: RETRY,
  store_failed: RETRY,
  closed: RETRY,
  tokens_unreadable: RETRY,
  read_failed: RETRY,
};

/** Most answers have no headers of their own. */
const NO_HEADERS: Reply["headers"] = Object.freeze({});

export const FAILURES = Object.fromEntries(
  Object.entries(ERRORS).map(([code, error]) => {
    const headers = FAILURE_HEADERS[code as RequestErrorCode] ?? NO_HEADERS;
    return [code, { status: statusOf(error), error, headers }];
  }),
) as Readonly<Record<RequestErrorCode, Failure>>;

/** Names the scope that a token lacks, RFC 6750 section 3. */
export function scopeChallenge(scope: Scope): string {
  return `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`;
}

/** A 200 with a JSON body. */
export function okReply(body: Reply["body"], headers = NO_HEADERS): Reply {
  return { status: 200, headers, body };
}

/** The answer to a failure: a failure without a code of its own has no message for the client either. */
export function errorReply(cause: unknown): Reply {
  const isKnown = cause instanceof PlantStoreError && Object.hasOwn(FAILURES, cause.code);
  const { code, message } = isKnown ? cause : INTERNAL;
  const { status, error, headers } = FAILURES[code as RequestErrorCode];
  const body = `{"error":${error},"message":${encodeJsonString(message)}}`;
  return { status, headers, body, error, reason: status < 500 ? message : undefined };
}

const INTERNAL = {
  code: "internal",
  message: "internal server error; the reason is in the server's log",
} as const;

/** A whole answer as text, for a connection without a response; the connection closes. */
function encodeReply(reply: Reply, requestId: string): string {
  const headers = {
    ...replyHeaders(reply, requestId),
    Date: new Date().toUTCString(),
    Connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const status = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\n`;
  return `${status}${lines.join("")}\r\n${reply.body}`;
}

export function replyHeaders(reply: Reply, requestId: string): Record<string, string> {
  const { headers, body } = reply;
  if (body === "") return { "Cache-Control": "no-store", "X-Request-Id": requestId, ...headers };
  return {
    "Content-Type": "application/json",
    "Content-Length": `${Buffer.byteLength(body)}`,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Request-Id": requestId,
    ...headers,
  };
}

/** A longer body is not worth the copies of it that a text takes. */
const TEXT_MAX = 64 * 1024;

/** Reading a rest of a body up to this length costs less than a new connection. */
const DISCARD_BYTES_MAX = 64 * 1024;

/** How long connections linger. The times are nginx's: 4 MiB arrive within them at 200 kB/s. */
const LINGER_BOUNDS = {
  connectionsMax: 1024, // further ones close at once
  totalMs: 30_000,
  pauseMs: 5_000, // between two packets of the client
  bytesMax: 64 * 1024 * 1024, // of one connection
};

/** How often the bounds of a lingering connection are checked. */
const LINGER_LOOK_MS = 100;

/** The answered connections of one listener whose clients still send. Knows nothing of HTTP. */
export class Lingering {
  readonly #bounds: typeof LINGER_BOUNDS;
  readonly #sockets = new Set<Socket>();

  constructor(bounds: Partial<typeof LINGER_BOUNDS> = {}) {
    this.#bounds = { ...LINGER_BOUNDS, ...bounds };
  }

  /** Sends a last text, and closes the connection when the client does, or at a bound. */
  close(socket: Socket, text = ""): void {
    if (socket.destroyed) return;
    socket.end(text);
    if (this.#sockets.size < this.#bounds.connectionsMax) this.#discard(socket);
    else Socket.prototype.destroySoon.call(socket);
  }

  has(socket: Socket): boolean {
    return this.#sockets.has(socket);
  }

  #discard(socket: Socket): void {
    const { totalMs, pauseMs, bytesMax } = this.#bounds;
    let [bytes, ageMs, quietMs] = [0, 0, 0];
    const looking = setInterval(() => {
      ageMs += LINGER_LOOK_MS;
      quietMs += LINGER_LOOK_MS;
      const isOver = ageMs >= totalMs || quietMs >= pauseMs;
      if (isOver || hasStopped(socket)) socket.destroy(); // a server does not wait for such clients
    }, LINGER_LOOK_MS).unref();
    this.#sockets.add(socket);
    socket.once("close", () => {
      clearInterval(looking);
      this.#sockets.delete(socket);
    });
    // The HTTP parser receives nothing more: parsing costs more than discarding.
    socket.removeAllListeners("data");
    socket.on("data", (chunk: Buffer) => {
      quietMs = 0;
      bytes += chunk.length;
      if (bytes > bytesMax) socket.destroy();
    });
    socket.resume();
    resumeReading(socket);
  }
}

/** One request on its way to its answer. */
export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly lingering: Lingering;
  /** What is published about it, so far. */
  readonly notes?: Noted | undefined;
  /** Called before the body is read, if the client waits for that. */
  readonly sendContinue?: (() => void) | undefined;
}

/**
 * Answers a request whose body may be unread.
 *
 * @param closes whether the connection closes, no matter what the client still sends.
 * @returns the request's id, as the answer names it; `undefined` if the request was answered before.
 */
export function answer(
  { req, res, lingering }: Exchange,
  reply: Reply,
  closes = false,
): string | undefined {
  if (res.headersSent) return undefined; // the connection's own failure was reported first
  dropBody(req);
  const rest = req.complete === false ? restBytes(req) : 0; // Fastify's inject() has no such member
  const isCutOff = rest > DISCARD_BYTES_MAX || (rest > 0 && isLastAnswer(res, req));
  if (closes || isCutOff) lingerAfterEnd({ req, res, lingering });
  else if (rest > 0) req.resume(); // or Node would keep what comes before the answer has left
  const requestId = nameRequest(req);
  const { status, headers, body } = reply;
  // A create, a plant or a last page: no other 200 has just these headers.
  const isText = status === 200 && headers === NO_HEADERS && body.length <= TEXT_MAX;
  if (!isText || !sendAsOneText(res, reply, requestId, replyHeaders)) {
    res.writeHead(status, replyHeaders(reply, requestId));
    res.end(body); // in one write with the head; Node discards a small rest by itself
  }
  publishAnswer(reply, requestId, req);
  return requestId;
}

/** Answers with a failure, and warns if it has no code of its own. */
export function answerFailure(exchange: Exchange, error: unknown): void {
  const reply = errorReply(error);
  const requestId = answer(exchange, reply);
  if (reply.status === 500) publishWarning("Cannot answer a request", error, requestId);
}

/** Publishes that a request broke off (`cut`), unless it was answered before. */
export function publishCut(req: IncomingMessage, res: ServerResponse): void {
  if (!res.headersSent) publishAnswer({ status: 0, cut: true }, nameRequest(req), req);
}

/** Answers bytes that never became a request, and closes the connection. */
export function answerSocket(socket: Socket, reply: Reply, lingering: Lingering): void {
  const requestId = nameRequest();
  lingering.close(socket, encodeReply(reply, requestId));
  publishAnswer({ ...reply, client: peerOf(socket) }, requestId);
}

/**
 * Has the connection linger after the answer, and no request that follows carried out: Node's own close
 * would reset a client that still sends.
 */
function lingerAfterEnd({ req, res, lingering }: Exchange): void {
  res.setHeader("Connection", "close");
  if (ignoreFollowing(req)) req.resume();
  const { socket } = req;
  if (typeof socket?.destroySoon !== "function") return; // Fastify's inject()
  closeBy(socket, () => lingering.close(socket));
  // Node forgets an answered request, but a reader of its body waits for a close.
  socket.once("close", () => req.destroy());
}

/** How many bytes of the body the client may still send; also 0 for a request without one. */
function restBytes({ headers }: IncomingMessage): number {
  const { "content-length": length = "0", "transfer-encoding": coding, expect } = headers;
  if (coding === undefined && Number(length) === 0) return 0;
  // A client that waits for 100 Continue may or may not send the body after an error.
  return coding === undefined && expect === undefined ? Number(length) : Number.POSITIVE_INFINITY;
}

/** Closes the connection after this answer, unless its head was sent. */
export function closeAfter(res: ServerResponse | undefined): void {
  if (res?.headersSent === false) res.setHeader("Connection", "close");
}

/**
 * Whether the connection closes after this answer: the server or the client has decided so (RFC 9112 section
 * 9.3).
 */
export function isLastAnswer(res: ServerResponse, req = res.req): boolean {
  return willClose(res, req) || res.getHeader("Connection") === "close";
}

/** Calls `then` when this answer, and with it every earlier one, is written. */
export function afterAnswer(res: ServerResponse | undefined, then: () => void): void {
  if (res === undefined || res.writableFinished) then();
  else res.once("finish", then);
}
