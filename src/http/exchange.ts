/**
 * One request and its response: what it holds in memory, what is sent, and what is published about it.
 *
 * Invariants. Each request gets one response; a failure is exactly `{"error": int32, "message": string}`, without
 * a path or a stack. What a request holds is given back in one place, after its response and its work.
 *
 * A response that closes the connection is written and not ended: Node's close would reset a client that still
 * sends, and the reset can overtake the response (RFC 9112 section 9.6).
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { publishWarning, type RequestMessage, requests } from "../core/channels.ts";
import { ERRORS, PlantStoreError, statusOf } from "../core/errors.ts";
import type { TokenVerifier, TrustedProxies, VerifiedToken } from "../core/services.ts";
import type { Budget } from "./budget.ts";
import { clientOf, invalidToken } from "./head.ts";
import { ignoreBody, ignoreFollowing, writeHeadAsText } from "./node-internals.ts";

/** What the requests of a listener share. */
interface Shared {
  readonly tokens: TokenVerifier;
  readonly budget: Budget;
  readonly trusted: TrustedProxies | undefined;
}

type OnRelease = (exchange: Exchange) => void;

/** Headers of failures, by their codes; `fail` adds `Retry-After` to each 503. */
const HEADERS: Readonly<Record<string, readonly string[]>> = {
  missing_token: ["WWW-Authenticate", 'Bearer realm="plant-store"'],
  invalid_token: ["WWW-Authenticate", 'Bearer realm="plant-store", error="invalid_token"'],
  unsupported_media_type: ["Accept", "application/json"],
  unsupported_encoding: ["Accept-Encoding", "identity"],
};
/** A request and its response in Node, besides what `hold` is told (measured). */
const REQUEST_BYTES = 8 * 1024;
export const INTERNAL = "internal server error; the reason is in the server's log";

/** Characters that have no meaning in a header, a line of a log, a shell or a page. */
const SAFE_ID = /^[A-Za-z0-9._~+/=:@-]{1,64}$/;
/** A random part for each process and a counter, so that ids are unique among restarts and replicas. */
const OUR_ID = `${randomBytes(6).toString("hex")}-`;
let made = 0;

/** What is not the path in a request target, which may be a path or a URL (RFC 9112 section 3.2). */
const NO_PATH = /^https?:\/\/[^/?#]*|\?.*/gis;

export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** The client's own `X-Request-Id` if it is safe to repeat, else one of ours. */
  readonly requestId: string;
  /** Of the response: names and values in turn. */
  readonly headers: string[];
  readonly path: string;
  token = "";
  /** Whose request it is, once its token is accepted. */
  caller: VerifiedToken | undefined;
  operation: RequestMessage["operation"];
  bodyBytes = 0;
  /** Of our own server, and not of one that the listener is mounted in. */
  readonly isOurs: boolean;
  /** The connection closes after the response, and no request that follows is carried out. */
  isLast = false;
  /** The system has the response, or the client has left. */
  isOver: boolean;
  /** The operation; it never rejects. Nothing is given back before its end, so that work cannot pile up. */
  work: Promise<void> | undefined;
  /** Called at the end, if a stream waits for its client. */
  wake: (() => void) | undefined;
  readonly #shared: Shared;
  readonly #onRelease: OnRelease | undefined;
  /** Only for what is published. */
  readonly #client: string | undefined;
  readonly #startedAt: number | undefined;
  readonly #isQueued: boolean;
  #held = 0;
  #isPublished = false;

  /** @param onRelease is called once the system has the response, or the client has left. For our own server. */
  constructor(req: IncomingMessage, res: ServerResponse, shared: Shared, onRelease?: OnRelease) {
    this.req = req;
    this.res = res;
    this.#shared = shared;
    this.#onRelease = onRelease;
    this.isOurs = onRelease !== undefined;
    this.isOver = req.socket.destroyed;
    this.path = (req.url ?? "").replace(NO_PATH, "");
    const sent = req.headers["x-request-id"];
    this.requestId = typeof sent === "string" && SAFE_ID.test(sent) ? sent : OUR_ID + ++made;
    this.headers = ["Cache-Control", "no-store", "X-Content-Type-Options", "nosniff"];
    this.headers.push("X-Request-Id", this.requestId);
    if (requests.hasSubscribers) {
      this.#startedAt = performance.now();
      this.#client = clientOf(req, shared.trusted);
    }
    res.on("close", this.#release);
    // A response that waits for earlier ones emits no "close" with its connection.
    this.#isQueued = res.socket === null;
    if (this.#isQueued) req.socket.setMaxListeners(0).on("close", this.#release);
    if (!(req.socket instanceof Socket)) res.on("finish", this.#release); // a mocked socket emits no "close"
  }

  /**
   * Raises what this request holds to `REQUEST_BYTES + bytes`, until it is over. Never lowers it.
   *
   * @throws PlantStoreError `overloaded`.
   */
  hold(bytes: number): void {
    const { budget } = this.#shared;
    const more = Math.min(REQUEST_BYTES + bytes, budget.requestMax) - this.#held;
    if (this.isOver || more <= 0) return;
    budget.take(this.caller?.name ?? "", more);
    this.#held += more;
  }

  /** Verifies the token once more. @throws PlantStoreError `invalid_token`, or what the token check throws. */
  async verifyAgain(): Promise<void> {
    if (!(await this.#shared.tokens.verify(this.token))) throw invalidToken();
  }

  /** Closes the connection after the response, or now if that has left. */
  closeAfter(): void {
    this.isLast = true;
    if (!this.res.headersSent) this.res.setHeader("Connection", "close");
    ignoreFollowing(this.req);
    if (this.isOver) linger(this.req.socket);
  }

  /** Sends the response with JSON or nothing, unless there is one. @param error the number in an Error body. */
  respond(status: number, body: string | Uint8Array, error?: number): void {
    const { req, res, headers } = this;
    if (res.headersSent) return;
    const isUnread = req.complete === false; // `undefined` in mocked requests
    if (isUnread && (res.shouldKeepAlive === false || hasLongRest(req))) this.closeAfter();
    if (this.isLast) ignoreBody(req);
    else if (isUnread) req.resume(); // a short rest, perhaps of a body that was paused
    const length = Buffer.byteLength(body);
    const ofBody = ["Content-Type", "application/json", "Content-Length", `${length}`];
    const sent = length > 0 ? [...headers, ...ofBody] : headers;
    if (length > 0 && this.isOurs && !this.isLast) writeHeadAsText(res, status, sent);
    else res.writeHead(status, sent); // code around the listener may throw here
    const encoding = length === body.length ? "latin1" : "utf8"; // of ASCII they are the same
    const isBare = length === 0 || req.method === "HEAD" || !(req.socket instanceof Socket);
    // Ended later, and as Latin-1, head and body are one write and not two.
    if (isBare || !(this.isOurs || this.isLast)) res.end(body, encoding);
    else res.write(body, encoding, () => (this.isLast ? linger(req.socket) : res.end()));
    if (this.isLast && !this.isOurs) setTimeout(() => res.end(), 2000).unref(); // middleware may drop the callback
    this.publish(status, error);
  }

  /** Responds with a failure, and warns if it has no code of its own. */
  fail(cause: unknown): void {
    if (this.res.headersSent) return;
    const isKnown = cause instanceof PlantStoreError && Object.hasOwn(ERRORS, cause.code);
    const { code, message } = isKnown ? cause : { code: "internal", message: INTERNAL };
    const error = ERRORS[code as keyof typeof ERRORS];
    const status = statusOf(error);
    this.headers.push(...(status === 503 ? ["Retry-After", "1"] : (HEADERS[code] ?? [])));
    this.respond(status, JSON.stringify({ error, message }), error);
    if (status === 500) publishWarning("A request failed with 500", cause, this.requestId);
  }

  /** Publishes once what became of the request. */
  publish(status: number, error?: number, brokeOff = false): void {
    if (this.#isPublished) return;
    this.#isPublished = true;
    if (!requests.hasSubscribers) return;
    requests.publish({
      method: this.req.method ?? undefined, // null if the bytes never became a request
      path: this.req.method ? this.path : undefined,
      client: this.#client,
      status,
      error,
      durationMs: this.#startedAt && performance.now() - this.#startedAt,
      bodyBytes: this.bodyBytes,
      requestId: this.requestId,
      token: this.caller?.name,
      operation: this.operation,
      cut: brokeOff && !this.res.writableFinished,
    } satisfies RequestMessage);
  }

  readonly #release = async (): Promise<void> => {
    if (this.#isQueued) this.req.socket.off("close", this.#release);
    if (this.isOver) return;
    this.isOver = true;
    this.publish(this.res.headersSent ? this.res.statusCode : 0, undefined, true);
    this.wake?.();
    this.#onRelease?.(this);
    await this.work;
    this.#shared.budget.giveBack(this.caller?.name ?? "", this.#held);
  };
}

/** Whether the client may still send so much that the connection is better closed. */
function hasLongRest({ headers }: IncomingMessage): boolean {
  const { "content-length": length = "0", "transfer-encoding": coding, expect } = headers;
  if (coding !== undefined || Number(length) > 64 * 1024) return true;
  // A client that waits for 100 Continue may or may not send its body after a refusal, and Node closes.
  return expect !== undefined && (Number(length) > 0 || expect.toLowerCase() === "100-continue");
}

/** Closes after the client has, or 2 s later; what it sends until then is discarded. */
export function linger(socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return;
  socket.end();
  // The parser gets nothing more: a body in small chunks would cost more than a request.
  socket.removeAllListeners("data");
  socket.on("data", () => {}).resume();
  const closing = setTimeout(() => socket.destroy(), 2000).unref();
  socket.once("close", () => clearTimeout(closing));
}
