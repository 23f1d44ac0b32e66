/**
 * The id of a request, and its message on the channel `plant-store:request`.
 *
 * The code that answers publishes, so each answer has one message. Without a subscriber each function
 * is one comparison: it reads no clock and keeps nothing.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { type RequestMessage, requests } from "../core/channels.ts";
import type { TrustedProxies } from "../core/services.ts";
import { clientOf } from "./client-address.ts";

/** Text that means nothing to a header, a line of a log, a shell or a page. */
const SAFE = /^[A-Za-z0-9._~+/=:@-]{1,64}$/;

const OURS = `${randomBytes(6).toString("hex")}-`;
let made = 0;

/**
 * The id of a request: the client's own `X-Request-Id` if it is safe to repeat, else one of ours, a
 * random part for each process and a counter, so that ids are unique among restarts and replicas.
 * Several `X-Request-Id` headers arrive joined by commas, which is not safe.
 */
export function nameRequest(req?: IncomingMessage): string {
  const sent = req?.headers["x-request-id"];
  return typeof sent === "string" && SAFE.test(sent) ? sent : OURS + ++made;
}

const AUTHORITY = /^https?:\/\/[^/?#]*/i;

/** The path of a request target, without authority and query. */
export function pathOf(target: string): string {
  const path = target.startsWith("/") ? target : target.replace(AUTHORITY, "");
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}

/** The message itself; until it is published, `durationMs` is the time when the request arrived. */
export type Noted = { -readonly [Member in keyof RequestMessage]: RequestMessage[Member] };

/**
 * The member of a request that holds its message, because a WeakMap costs a microsecond. Our own requests
 * have it from the start: added later, it changes their shape (measured: a tenth of a create).
 */
export const NOTED: unique symbol = Symbol("plant-store:request");

interface WatchedRequest extends IncomingMessage {
  [NOTED]?: Noted;
}

/** Call it when the listener receives a request. @param isTimed whether its duration is published. */
export function noteArrival(req: WatchedRequest, trusted?: TrustedProxies, isTimed = true): void {
  if (!requests.hasSubscribers) return;
  req[NOTED] = beginMessage(req, clientOf(req, trusted), isTimed ? performance.now() : undefined);
}

function beginMessage(req?: IncomingMessage, client?: string, arrivedAt?: number): Noted {
  return {
    method: req?.method,
    path: req && pathOf(req.url ?? ""),
    client,
    status: 0,
    error: undefined,
    durationMs: arrivedAt,
    bodyBytes: 0,
    sentBytes: undefined,
    requestId: "",
    token: undefined,
    operation: undefined,
    cut: false,
  };
}

/** The message of a request so far; `undefined` if there was no subscriber when it arrived. */
export function notesOf(req: WatchedRequest): Noted | undefined {
  return req[NOTED];
}

/**
 * Call it when an answer was handed to Node, or the request broke off.
 *
 * @param req absent if the bytes never became a request.
 */
export function publishAnswer(
  answered: Pick<RequestMessage, "status"> & Partial<RequestMessage>,
  requestId: string,
  req?: WatchedRequest,
): void {
  if (!requests.hasSubscribers) return;
  const message = req?.[NOTED] ?? beginMessage(req, answered.client);
  if (message.durationMs !== undefined) message.durationMs = performance.now() - message.durationMs;
  message.status = answered.status;
  message.error = answered.error;
  message.sentBytes = answered.sentBytes;
  message.cut = answered.cut === true;
  message.requestId = requestId;
  requests.publish(message);
}
