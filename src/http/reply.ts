/**
 * The answers that clients see: the one table from error code to HTTP status and `error` number, and
 * the headers of every answer.
 *
 * Invariant: every failure has the body `{"error": int32, "message": string}` and nothing else
 * (docs/api.md). A number is status x 100 + n and never changes. A client sees the message of a
 * request code only; any other failure is answered `internal`, so no path or stack gets out.
 */
import { STATUS_CODES } from "node:http";
import { PlantStoreError, type RequestErrorCode } from "../core/errors.ts";
import type { Scope } from "../core/services.ts";
import { encodeJsonString } from "../core/text.ts";

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
export const NO_HEADERS: Reply["headers"] = Object.freeze({});

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
export function isRequestError(cause: unknown): cause is RequestError {
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
