/**
 * The answers that clients see, and how each one reaches its client, even if the server did not read the
 * whole request.
 *
 * Invariants. Every failure has the body `{"error": int32, "message": string}` and nothing else
 * (docs/api.md). A number is status x 100 + n and never changes. A client sees the message of a request
 * code only; any other failure is answered `internal`, so no path or stack gets out.
 *
 * The server reads and discards a small rest of a body, and the connection stays open. Before a
 * large or unknown rest it closes, but not at once: closing a socket with unread bytes resets it, and
 * the reset can overtake the answer. So the server closes its side after the answer, and for a while
 * discards what the client still sends (RFC 9112 section 9.6).
 */
import { type IncomingMessage, ServerResponse, STATUS_CODES } from "node:http";
import { Socket } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError, type RequestErrorCode } from "../core/errors.ts";
import type { Scope } from "../core/services.ts";
import { encodeJsonString } from "../core/text.ts";
import { type Noted, nameRequest, peerOf, publishAnswer } from "./request-message.ts";

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Text, or the bytes of text in UTF-8. */
  readonly body: string | Uint8Array;
  /** The entity tag of a plant. */
  readonly tag?: string;
  /** The number in an Error body. */
  readonly error?: number;
}

interface Failure {
  readonly status: number;
  readonly error: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** RFC 6750 section 3. */
const CHALLENGE = 'Bearer realm="plant-store"';
const ASK_TOKEN = { "WWW-Authenticate": CHALLENGE };
const ASK_OTHER_TOKEN = { "WWW-Authenticate": `${CHALLENGE}, error="invalid_token"` };
const RETRY = { "Retry-After": "1" };

export const FAILURES: Readonly<Record<RequestErrorCode, Failure>> = {
  bad_request: { status: 400, error: 40001 },
  invalid_utf8: { status: 400, error: 40002 },
  invalid_json: { status: 400, error: 40003 },
  duplicate_member: { status: 400, error: 40004 },
  invalid_plant: { status: 400, error: 40005 },
  conflict: { status: 400, error: 40006 },
  invalid_query: { status: 400, error: 40007 },
  unknown_cursor: { status: 400, error: 40008 },
  missing_token: { status: 401, error: 40101, headers: ASK_TOKEN },
  invalid_token: { status: 401, error: 40102, headers: ASK_OTHER_TOKEN },
  // Their WWW-Authenticate and Allow depend on the operation: see http/listener.
  insufficient_scope: { status: 403, error: 40301 },
  not_found: { status: 404, error: 40401 },
  unknown_plant: { status: 404, error: 40402 },
  method_not_allowed: { status: 405, error: 40501 },
  request_timeout: { status: 408, error: 40801 },
  body_too_large: { status: 413, error: 41301 },
  // RFC 9110 section 15.5.16: say what would have been accepted.
  unsupported_media_type: { status: 415, error: 41501, headers: { Accept: "application/json" } },
  unsupported_encoding: { status: 415, error: 41502, headers: { "Accept-Encoding": "identity" } },
  expectation_failed: { status: 417, error: 41701 },
  header_too_large: { status: 431, error: 43101 },
  internal: { status: 500, error: 50001 },
  overloaded: { status: 503, error: 50301, headers: RETRY },
  write_failed: { status: 503, error: 50302, headers: RETRY },
  store_failed: { status: 503, error: 50303, headers: RETRY },
  closed: { status: 503, error: 50304, headers: RETRY },
  // Only the operator can help: no Retry-After.
  not_stored: { status: 503, error: 50305 },
  tokens_unreadable: { status: 503, error: 50306, headers: RETRY },
  read_failed: { status: 503, error: 50307, headers: RETRY },
};

/** Names the scope that a token lacks, RFC 6750 section 3. */
export function scopeChallenge(scope: Scope): string {
  return `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`;
}

/** Most answers have no headers of their own. */
const NO_HEADERS: Reply["headers"] = Object.freeze({});

/** A 200 with a JSON body. */
export function okReply(body: Reply["body"], headers = NO_HEADERS): Reply {
  return { status: 200, headers, body };
}

/** The answer to a failure, whatever was thrown. */
export function errorReply(cause: unknown): Reply {
  const { code, message } = isRequestError(cause) ? cause : INTERNAL;
  const { status, error, headers = NO_HEADERS } = FAILURES[code];
  const body = `{"error":${error},"message":${encodeJsonString(message)}}`;
  return { status, headers, body, error };
}

const INTERNAL = {
  code: "internal",
  message: "internal server error; the reason is in the server's log",
} as const;

type RequestError = PlantStoreError & { code: RequestErrorCode };

/** Whether a failure has a code of its own, and so a message for the client. */
function isRequestError(cause: unknown): cause is RequestError {
  return cause instanceof PlantStoreError && Object.hasOwn(FAILURES, cause.code);
}

/** A whole answer as text, for a connection without a response; the connection closes. */
export function encodeReply(reply: Reply, requestId: string): string {
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
  const { headers, body, tag } = reply;
  const all: Record<string, string> =
    body === ""
      ? { "Cache-Control": "no-store", "X-Request-Id": requestId, ...headers }
      : {
          "Content-Type": "application/json",
          "Content-Length": `${Buffer.byteLength(body)}`,
          "Cache-Control": "no-store",
          "X-Content-Type-Options": "nosniff",
          "X-Request-Id": requestId,
          ...headers,
        };
  if (tag !== undefined) all.ETag = tag;
  return all;
}

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
    const { server } = socket as { server?: { listening?: boolean } };
    let [bytes, ageMs, quietMs] = [0, 0, 0];
    const looking = setInterval(() => {
      ageMs += LINGER_LOOK_MS;
      quietMs += LINGER_LOOK_MS;
      const hasStopped = server?.listening === false; // a server does not wait for such clients
      if (hasStopped || ageMs >= totalMs || quietMs >= pauseMs) socket.destroy();
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
    // The parser may have read without the stream and paused; the stream believes that it reads.
    socket._read(0);
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
  readonly onError?: OnError;
}

/** Receives what a client is not to blame for, and the id of the answer if there is one. */
export type OnError = (error: unknown, requestId: string | undefined) => void;

/**
 * Makes a failure known for which the client is not to blame. A store reports by itself, and at most
 * once a second, that it cannot read.
 */
export function reportFault(
  { onError }: Exchange,
  message: string,
  error: unknown,
  requestId: string | undefined,
): void {
  if (!isRequestError(error) || error.code !== "read_failed") {
    publishWarning(message, error, requestId);
  }
  // Later: what it throws is not a failure of this request.
  if (onError !== undefined) queueMicrotask(() => onError(error, requestId));
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
  const rest = restBytes(req);
  const isCutOff = rest > DISCARD_BYTES_MAX || (rest > 0 && isLastAnswer(res));
  if (closes || isCutOff) lingerAfterEnd({ req, res, lingering });
  const requestId = nameRequest(req);
  if (!trySendWhole(res, reply, requestId)) {
    res.writeHead(reply.status, replyHeaders(reply, requestId));
    res.end(reply.body); // in one write with the head; Node discards a small rest by itself
  }
  publishAnswer(reply, requestId, req);
  return requestId;
}

/** Answers with a failure, and warns if it has no code of its own. */
export function answerFailure(exchange: Exchange, error: unknown): void {
  const requestId = answer(exchange, errorReply(error));
  if (!isRequestError(error) || error.code === "internal") {
    reportFault(exchange, "Cannot answer a request", error, requestId);
  }
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
 * Has the connection linger after the answer, and no request that follows carried out. Node calls
 * `destroySoon` after a last answer, which would reset a client that still sends.
 */
export function lingerAfterEnd({ req, res, lingering }: Exchange): void {
  // The socket of an HTTP/2 request is the session's, which has other streams.
  if (req.httpVersionMajor > 1) return;
  res.setHeader("Connection", "close");
  if (ignoreFollowing(req)) req.resume();
  const { socket } = req;
  if (typeof socket?.destroySoon !== "function") return; // Fastify's inject(), node-mocks-http
  socket.destroySoon = () => lingering.close(socket);
  // Node forgets an answered request, but a reader of its body waits for a close.
  socket.once("close", () => req.destroy());
}

/** Has Node's parser drop the rest of a packet, which may hold two thousand requests. */
const SKIP_PACKET = 2;

/** Not documented: it takes each request whose head was parsed. */
interface Parser {
  onIncoming: (req: IncomingMessage & { upgrade: boolean }) => number;
}

/**
 * Has Node hand out no other request of this connection: it keeps some KiB of each until the
 * connection is closed, so a client could fill the memory.
 *
 * @returns false if the request comes from no parser.
 */
export function ignoreFollowing(req: IncomingMessage): boolean {
  const { parser } = (req.socket ?? {}) as { parser?: Parser | null };
  if (parser === undefined || parser === null) return false;
  parser.onIncoming = (next) => {
    next.upgrade = false; // else Node hands the connection over
    next.resume();
    return SKIP_PACKET;
  };
  return true;
}

/**
 * How many bytes of the body the client may still send. A request without a body is not `complete`
 * either until Node has gone on, and a stand-in for a request has no such member.
 */
function restBytes({ complete, headers }: IncomingMessage): number {
  const { "content-length": length = "0", "transfer-encoding": coding, expect } = headers;
  if (complete !== false || (coding === undefined && Number(length) === 0)) return 0;
  // A client that waits for 100 Continue may or may not send the body after an error.
  return coding === undefined && expect === undefined ? Number(length) : Number.POSITIVE_INFINITY;
}

/** Closes the connection after this answer, unless its head was sent. */
export function closeAfter(res: ServerResponse | undefined): void {
  if (res?.headersSent === false) res.setHeader("Connection", "close");
}

/** Whether the connection closes after this answer. */
export function isLastAnswer(res: ServerResponse | undefined): boolean {
  return res !== undefined && (!res.shouldKeepAlive || res.getHeader("Connection") === "close");
}

/** Calls `then` when this answer, and with it every earlier one, is written. */
export function afterAnswer(res: ServerResponse | undefined, then: () => void): void {
  if (res === undefined || res.writableFinished) then();
  else res.once("finish", then);
}

/** Members of Node's responses that it does not document. */
interface Internals {
  /** The text of the head, which leaves with the first piece of the body. */
  _header: string | null | undefined;
  readonly _keepAliveTimeout: number | undefined;
  readonly _maxRequestsPerSocket: number | null | undefined;
  readonly _removedConnection: boolean;
  /** The client waits for a 100; Node closes after an answer without one. */
  readonly _expect_continue: boolean;
  readonly _sent100: boolean;
}

const { writeHead, end } = ServerResponse.prototype;
/** Whether both are Node's own, by what they call: a monitor may have wrapped them. */
const ARE_NODES = /\b_storeHeader\b/.test(`${writeHead}`) && /\b_send\b/.test(`${end}`);

/** Splits a head around the length of its body, the id of its request, and the tag of a plant. */
const AROUND_VALUES =
  /^(.*\r\nContent-Length: )\d+(\r\n.*\r\nX-Request-Id: )[^\r]*(?:(\r\nETag: )[^\r]*)?(\r\n.*)$/s;

/** A longer body is not worth the copies of it that a text takes. */
const WHOLE_MAX = 64 * 1024;

const UNKNOWN = { second: 0, keepAliveMs: 0, parts: [] as readonly string[] };
/** The heads that Node made last, split. */
const lastHeads = { create: UNKNOWN, read: UNKNOWN };

/**
 * Sends the answer to a create or to the read of a plant as one text. Node checks and joins header by
 * header, which takes a tenth of a create.
 *
 * Invariant: byte for byte the answer that Node sends. The head is a copy of one that Node made in this
 * second, with other values. Node sends every other answer, and all answers of a response whose methods
 * were wrapped, by middleware or by a monitor of all responses.
 *
 * @returns false, with nothing sent, if Node has to send this answer.
 */
export function trySendWhole(res: ServerResponse, reply: Reply, requestId: string): boolean {
  const { body, tag = "" } = reply;
  const kind = tag === "" ? "create" : "read";
  if (reply.status !== 200 || !isPlain(res)) return false;
  if (kind === "create" && reply.headers !== NO_HEADERS) return false;
  if (body.length > WHOLE_MAX) return false;
  const text = inLatin1(body);
  const internals = res as unknown as Internals;
  const { _keepAliveTimeout: keepAliveMs = 0 } = internals;
  const second = Math.floor(Date.now() / 1000);
  if (second !== lastHeads[kind].second || keepAliveMs !== lastHeads[kind].keepAliveMs) {
    res.writeHead(200, replyHeaders(reply, requestId));
    const parts = AROUND_VALUES.exec(internals._header ?? "")?.slice(1);
    if (parts === undefined) {
      res.end(body);
      return true;
    }
    lastHeads[kind] = { second, keepAliveMs, parts };
  }
  res.statusCode = 200;
  res.statusMessage = "OK";
  const [start, middle, beforeTag = "", ending] = lastHeads[kind].parts;
  const values = `${text.length}${middle}${requestId}${beforeTag}${tag}`;
  const head = `${start}${values}${ending}`;
  internals._header = `${head}${text}`;
  res.end();
  internals._header = head; // the response stays until the next request: not the body, too
  return true;
}

/** The bytes of a body as text that leaves as these bytes, because Node writes a head as Latin-1. */
function inLatin1(body: Reply["body"]): string {
  if (typeof body === "string" && Buffer.byteLength(body) === body.length) return body;
  return (Buffer.isBuffer(body) ? body : Buffer.from(body as string)).toString("latin1");
}

/** Whether a response is as Node made it for a request other than HEAD on a connection that stays open. */
function isPlain(res: ServerResponse): boolean {
  if (!ARE_NODES || res.writeHead !== writeHead || res.end !== end) return false;
  if (res.req.method === "HEAD" || !res.shouldKeepAlive || !res.sendDate) return false;
  if (res.statusMessage || res.getHeaderNames().length > 0) return false;
  const internals = res as unknown as Internals;
  if (internals._header !== null || internals._removedConnection) return false;
  if (internals._expect_continue && !internals._sent100) return false;
  return Number(internals._keepAliveTimeout) > 0 && !internals._maxRequestsPerSocket;
}
