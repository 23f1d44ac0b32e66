/**
 * What is known about a request for its log line: its id, and the message of `plant-store:request`.
 *
 * The code that answers publishes, so there is one message an answer. Without a subscriber each
 * function is one comparison: no clock is read and nothing is kept. What is kept goes with its request.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { type RequestMessage, requests } from "../core/channels.ts";
import { pathOf } from "./router.ts";

/** Nothing that a header, a line of a log, a shell or a page could take for its own. */
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

/** The message itself; until it is published, `durationMs` is when the request arrived. */
export type Noted = { -readonly [Member in keyof RequestMessage]: RequestMessage[Member] };

/** What was answered. */
interface Answered {
  readonly status: number;
  readonly error?: number;
  readonly cut?: boolean;
  readonly sentBytes?: number;
}

/**
 * Where a request keeps it: a member, because a WeakMap costs a microsecond. Our own requests have
 * the member from the start: added later, it changes their shape, which took a tenth of a create.
 */
export const NOTED: unique symbol = Symbol("plant-store:request");

interface WatchedRequest extends IncomingMessage {
  [NOTED]?: Noted;
}

/** The listener was called. */
export function noteArrival(req: WatchedRequest): void {
  if (requests.hasSubscribers) req[NOTED] = beginMessage(req, performance.now());
}

function beginMessage(req?: IncomingMessage, arrivedAt?: number): Noted {
  return {
    method: req?.method,
    path: req && pathOf(req.url ?? ""),
    status: 0,
    error: undefined,
    durationMs: arrivedAt,
    endedAt: 0,
    bodyBytes: 0,
    sentBytes: undefined,
    requestId: "",
    token: undefined,
    operation: undefined,
    cut: false,
  };
}

/** What is known of a request so far; `undefined` if nobody watched when it arrived. */
export function notesOf(req: WatchedRequest): Noted | undefined {
  return req[NOTED];
}

/** The answer was handed over, or there is none; `req` is absent where the bytes never became a request. */
export function publishAnswer(
  { status, error, cut = false, sentBytes }: Answered,
  requestId: string,
  req?: WatchedRequest,
): void {
  if (!requests.hasSubscribers) return;
  const message = req?.[NOTED] ?? beginMessage(req);
  message.status = status;
  message.error = error;
  message.endedAt = performance.now();
  if (message.durationMs !== undefined) message.durationMs = message.endedAt - message.durationMs;
  message.sentBytes = sentBytes;
  message.requestId = requestId;
  message.cut = cut;
  requests.publish(message);
}
