/**
 * One request and its response: what it holds in memory, how it is responded, and what is published about it.
 *
 * Invariants. Every failure has the body `{"error": int32, "message": string}` and nothing else; one without a code
 * of its own is `internal`, so no path or stack gets out. A request is responded once. What it holds is given back
 * in one place, when its response or its connection closes.
 *
 * Node discards a short body that nobody reads. A response that closes the connection, or comes before a longer
 * body, goes to the socket itself: Node's close would reset a client that still sends, and the reset can
 * overtake the response (RFC 9112 section 9.6).
 */
import { randomBytes } from "node:crypto";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { Socket } from "node:net";
import { publishWarning, type RequestMessage, requests } from "../core/channels.ts";
import { ERRORS, PlantStoreError, statusOf } from "../core/errors.ts";
import type { VerifiedToken } from "../core/services.ts";
import type { Budget } from "./budget.ts";
import { ignoreBody, ignoreFollowing } from "./node-internals.ts";

export interface Reply {
  readonly status: number;
  /** JSON, or nothing. */
  readonly body: string | Uint8Array;
  /** Further headers, names and values in turn. */
  readonly headers?: readonly string[];
  /** The number in an Error body. */
  readonly error?: number;
}

/** Headers of failures; each 503 has `Retry-After`, because only time is needed. */
const HEADERS: Readonly<Record<string, readonly string[]>> = {
  missing_token: ["WWW-Authenticate", 'Bearer realm="plant-store"'],
  invalid_token: ["WWW-Authenticate", 'Bearer realm="plant-store", error="invalid_token"'],
  unsupported_media_type: ["Accept", "application/json"],
  unsupported_encoding: ["Accept-Encoding", "identity"],
};
const RETRY = ["Retry-After", "1"];
const INTERNAL = "internal server error; the reason is in the server's log";

/** Text that means nothing to a header, a line of a log, a shell or a page. */
const SAFE_ID = /^[A-Za-z0-9._~+/=:@-]{1,64}$/;
/** A random part for each process and a counter, so that ids are unique among restarts and replicas. */
const OUR_ID = `${randomBytes(6).toString("hex")}-`;
let made = 0;

/** What Latin-1 does not write as UTF-8 does. */
const NOT_ASCII = /[^ -~]/;

/** The path of a request target, which may be a path or a URL (RFC 9112 section 3.2). */
export function pathOf(target: string): string {
  const path = target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/?#]*/i, "");
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}

export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** The client's own `X-Request-Id` if it is safe to repeat, else one of ours. */
  readonly requestId: string;
  /** Whose request it is, once its token is accepted. */
  caller: VerifiedToken | undefined;
  operation: RequestMessage["operation"];
  bodyBytes = 0;
  /** The address that is published. */
  client: string | undefined;
  /** The connection closes after the response, and no request that follows is carried out. */
  isLast = false;
  readonly #budget: Budget;
  readonly #onEnd: ((exchange: Exchange) => void) | undefined;
  /** The exchange that is responded before this one on its connection. */
  #previous: Exchange | undefined;
  readonly #startedAt = requests.hasSubscribers ? performance.now() : undefined;
  readonly #isQueued: boolean;
  #held = 0;
  #isResponded = false;
  #isPublished = false;
  #isWorking = false;
  #isEnded = false;

  /** @param onEnd is called once the system has the response, or the client has left. Only for our own server. */
  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    budget: Budget,
    previous?: Exchange,
    onEnd?: (exchange: Exchange) => void,
  ) {
    this.req = req;
    this.res = res;
    this.#budget = budget;
    this.#previous = previous;
    this.#onEnd = onEnd;
    const sent = req.headers["x-request-id"];
    this.requestId = typeof sent === "string" && SAFE_ID.test(sent) ? sent : OUR_ID + ++made;
    res.on("close", this.#end);
    // A response that waits for earlier ones emits no "close" with its connection.
    this.#isQueued = res.socket === null;
    if (this.#isQueued) req.socket.setMaxListeners(0).on("close", this.#end);
    if (!(req.socket instanceof Socket)) res.on("finish", this.#end); // a tool for tests closes nothing
  }

  /** Whether a response was sent, perhaps by other code. */
  get isResponded(): boolean {
    return this.#isResponded || this.res.headersSent;
  }

  /** Whether the system has the response, or the client has left. */
  get isOver(): boolean {
    return this.#isEnded || this.req.socket.destroyed;
  }

  /**
   * Holds so many bytes more until it is over, at most what one request can hold of the budget.
   *
   * @throws PlantStoreError `overloaded`.
   */
  hold(bytes: number): void {
    const more = Math.min(bytes, this.#budget.requestMax - this.#held);
    if (this.#isEnded || more <= 0) return;
    this.#budget.take(this.caller?.name ?? "", more);
    this.#held += more;
  }

  /** Gives nothing back until this work is over, even if the client leaves before, so that work cannot pile up. */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#isWorking = true;
    try {
      return await work;
    } finally {
      this.#isWorking = false;
      if (this.#isEnded) this.#giveBack();
    }
  }

  /** Has the connection close after the response. */
  closeAfter(): void {
    this.isLast = true;
    if (!this.res.headersSent) this.res.setHeader("Connection", "close");
    ignoreFollowing(this.req);
  }

  /** Sends the head of a response without a length, unless one was sent; the caller sends the body and publishes. */
  startStream(contentType: string): boolean {
    if (this.isResponded) return false;
    const type = ["Content-Type", contentType, "X-Content-Type-Options", "nosniff"];
    this.res.writeHead(200, this.#headersFor("", type));
    return true;
  }

  /** Sends the response, unless one was sent. */
  respond(reply: Reply): void {
    if (this.isResponded) return;
    this.#isResponded = true;
    const { req } = this;
    const isCut = this.isLast || (req.complete === false && hasLongRest(req));
    if (isCut) this.closeAfter();
    else if (req.complete === false) req.resume(); // a short rest, perhaps of a body that was paused
    const isInOrder = !this.#isQueued || this.#onEnd !== undefined;
    const isShort = reply.body.length <= SHORT_BYTES && req.socket instanceof Socket;
    if (isCut && isInOrder && isShort) this.#respondLast(reply);
    else this.#send(reply);
    this.publish(reply.status, reply.error);
  }

  /** Responds with a failure, and warns if it has no code of its own. */
  readonly fail = (cause: unknown): void => {
    if (this.isResponded) return;
    const isKnown = cause instanceof PlantStoreError && Object.hasOwn(ERRORS, cause.code);
    const { code, message } = isKnown ? cause : { code: "internal", message: INTERNAL };
    const error = ERRORS[code as keyof typeof ERRORS];
    const status = statusOf(error);
    const headers = status === 503 ? RETRY : (HEADERS[code] ?? []);
    this.respond({ status, headers, body: JSON.stringify({ error, message }), error });
    if (status === 500) publishWarning("Cannot answer a request", cause, this.requestId);
  };

  /** Publishes once what became of the request. */
  publish(status: number, error?: number, isCut = false): void {
    if (this.#isPublished) return;
    this.#isPublished = true;
    if (!requests.hasSubscribers) return;
    const { method, url = "" } = this.req;
    requests.publish({
      method: method ?? undefined, // null if the bytes never became a request
      path: method ? pathOf(url) : undefined,
      client: this.client,
      status,
      error,
      durationMs: this.#startedAt && performance.now() - this.#startedAt,
      bodyBytes: this.bodyBytes,
      requestId: this.requestId,
      token: this.caller?.name,
      operation: this.operation,
      cut: isCut,
    } satisfies RequestMessage);
  }

  /** Calls `then` once this response, and so every earlier one, has left. */
  whenSent(then: () => void): void {
    if (this.#isEnded || this.res.writableFinished) then();
    else this.res.once("finish", then);
  }

  #headersFor(body: Reply["body"], headers: readonly string[] = []): string[] {
    const all = ["Cache-Control", "no-store", "X-Request-Id", this.requestId, ...headers];
    if (body.length === 0) return all;
    all.push("Content-Type", "application/json", "Content-Length", `${Buffer.byteLength(body)}`);
    all.push("X-Content-Type-Options", "nosniff");
    return all;
  }

  #send({ status, body, headers }: Reply): void {
    const { res } = this;
    res.writeHead(status, this.#headersFor(body, headers));
    const isAscii = typeof body === "string" && !NOT_ASCII.test(body);
    // Ended later, and as Latin-1, head and body are one short write; `end(body)` makes two. Middleware around a
    // mounted listener may drop the callback of a write.
    if (body.length === 0 || this.#onEnd === undefined) res.end(body);
    else res.write(body, isAscii ? "latin1" : "utf8", () => res.end());
  }

  #respondLast({ status, body, headers }: Reply): void {
    const { req, res } = this;
    const others = Object.entries(res.getHeaders()).flat();
    const date = ["Date", new Date().toUTCString()];
    const all = [...this.#headersFor(body, headers), ...others, ...date];
    const lines = all.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join("");
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines}\r\n`;
    const text = req.method === "HEAD" ? head : head + Buffer.from(body).toString();
    ignoreBody(req);
    if (this.#previous === undefined) closeWith(req.socket, text);
    else this.#previous.whenSent(() => closeWith(req.socket, text));
  }

  #giveBack(): void {
    this.#budget.giveBack(this.caller?.name ?? "", this.#held);
  }

  readonly #end = (): void => {
    if (this.#isQueued) this.req.socket.off("close", this.#end);
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#previous = undefined; // or each exchange would keep all earlier ones
    if (!this.#isWorking) this.#giveBack();
    this.publish(this.res.headersSent ? this.res.statusCode : 0, undefined, true);
    this.#onEnd?.(this);
  };
}

/** A longer rest of a body is not read to keep a connection open. A longer response needs time to be sent. */
const SHORT_BYTES = 64 * 1024;

/** Whether the client may still send so much that the connection is better closed. */
function hasLongRest({ headers }: IncomingMessage): boolean {
  const { "content-length": length = "0", "transfer-encoding": coding, expect } = headers;
  if (coding !== undefined || Number(length) > SHORT_BYTES) return true;
  // A client that waits for 100 Continue may or may not send its body after a refusal, and Node closes.
  return expect !== undefined && (Number(length) > 0 || expect.toLowerCase() === "100-continue");
}

const LINGER_MS = 2000;

/** Sends a last text, and closes after the client has, or 2 s later. */
export function closeWith(socket: Socket, text: string): void {
  if (socket.destroyed) return;
  socket.end(text);
  // The parser gets nothing more: a body in small chunks would cost more than a request.
  socket.removeAllListeners("data");
  socket.on("data", () => {}).resume();
  const closing = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once("close", () => clearTimeout(closing));
}
