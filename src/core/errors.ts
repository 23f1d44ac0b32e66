/**
 * The error class of the store, its codes, and the `error` number of each that a client may be answered.
 *
 * Programs look at the code, which never changes; the message is for people and may. The message of
 * a request code is shown to the client, so it holds no path, token or stack: what only the operator
 * needs is the `cause`. Uses nothing that a browser lacks.
 */
import { quote } from "./text.ts";

/** Faults of a request, each with an HTTP status and an `error` number. */
export type RequestErrorCode =
  /** The bytes on the connection are not an HTTP request that can be trusted. */
  | "bad_request"
  /** The body is not JSON by RFC 8259. */
  | "invalid_json"
  /** The body is not UTF-8. */
  | "invalid_utf8"
  /** The body has `id`, `name` or `tag` more than once. */
  | "duplicate_member"
  /** The body is JSON but no NewPlant (docs/api.md). */
  | "invalid_plant"
  /** The id belongs to a plant with another name or tag. */
  | "conflict"
  /** `limit` or `after` in the query of a list is invalid. */
  | "invalid_query"
  /** No plant has the id after which a list is to begin. */
  | "unknown_cursor"
  | "missing_token"
  /** Unknown, expired or revoked; the client cannot distinguish these. */
  | "invalid_token"
  /** The token check cannot read which tokens are revoked, so it accepts none. */
  | "tokens_unreadable"
  | "insufficient_scope"
  | "not_found"
  /** The path names a plant, and no plant has its id. */
  | "unknown_plant"
  | "method_not_allowed"
  | "request_timeout"
  | "body_too_large"
  | "unsupported_media_type"
  | "unsupported_encoding"
  | "expectation_failed"
  | "header_too_large"
  /** A defect of this program, or of the one that embeds it; its log has the reason. */
  | "internal"
  /** Too many bytes wait for the disk or for the rest of a body; nothing was stored. */
  | "overloaded"
  /**
   * The disk refused this write, or the stored plant with this id cannot be read: the outcome is unknown
   * until the request is repeated.
   */
  | "write_failed"
  /** Plants cannot be read now, for a fault of the disk or a lack of memory; the store continues. */
  | "read_failed"
  /** The store stopped after a failed sync, or because its log was changed or removed. */
  | "store_failed"
  /** The store was closed. */
  | "closed";

/** The `error` number of an answer: status x 100 + n. It never changes, and none ends in 00. @internal */
export const ERROR_NUMBERS: Readonly<Record<RequestErrorCode, number>> = {
  bad_request: 40001,
  invalid_utf8: 40002,
  invalid_json: 40003,
  duplicate_member: 40004,
  invalid_plant: 40005,
  conflict: 40006,
  invalid_query: 40007,
  unknown_cursor: 40008,
  missing_token: 40101,
  invalid_token: 40102,
  insufficient_scope: 40301,
  not_found: 40401,
  unknown_plant: 40402,
  method_not_allowed: 40501,
  request_timeout: 40801,
  body_too_large: 41301,
  unsupported_media_type: 41501,
  unsupported_encoding: 41502,
  expectation_failed: 41701,
  header_too_large: 43101,
  internal: 50001,
  overloaded: 50301,
  write_failed: 50302,
  store_failed: 50303,
  closed: 50304,
  tokens_unreadable: 50306,
  read_failed: 50307,
};

/** The HTTP status that belongs to an `error` number. @internal */
export function statusOf(error: number): number {
  return Math.floor(error / 100);
}

/** Faults of the data directory and of its commands; they never reach a client. */
export type DataErrorCode =
  /** Another process holds the data directory. */
  | "locked"
  /** The data needs a person, and nothing was changed. */
  | "corruption"
  /** A sync has failed: memory may hold what the disk lacks, and only a restart of the machine drops that. */
  | "unsynced"
  /** The operating system refused an operation on a file. */
  | "io_error"
  /** A live token has this name already. */
  | "token_exists"
  /** No live token has this name. */
  | "token_unknown";

export type ErrorCode =
  | RequestErrorCode
  | DataErrorCode
  /** Of `plant-store/client`: the deadline or an abort came before an answer that settles the request. */
  | "outcome_unknown"
  /** Of `plant-store/client`: an answer of another program, or with an unknown `error` number. */
  | "unexpected_answer";

/** Every failure except a programmer's mistake, which is a `TypeError` or `RangeError`. */
export class PlantStoreError extends Error {
  /** One of the codes in docs/api.md, docs/embedding.md and docs/client.md. */
  readonly code: ErrorCode;
  /** The `error` number in docs/api.md; `undefined` if a failure with this code has none. */
  readonly number: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly number?: number } = {},
  ) {
    const numbers: Readonly<Record<string, number>> = ERROR_NUMBERS;
    super(message, options);
    this.name = "PlantStoreError";
    this.code = code;
    this.number = options.number ?? numbers[code];
  }
}

const CODES = new Map(
  Object.entries(ERROR_NUMBERS).map(([code, number]) => [number, code as RequestErrorCode]),
);

/**
 * The failure that an answer describes.
 *
 * @param body its text: `{"error": int32, "message": string}` if it is an answer of a plant store.
 * @internal
 */
export function failureOf(status: number, body: string): PlantStoreError {
  try {
    const { error: number, message } = JSON.parse(body);
    if (typeof message === "string" && statusOf(number) === status) {
      return new PlantStoreError(CODES.get(number) ?? "unexpected_answer", message, { number });
    }
  } catch {} // it is not JSON
  const message = `expected an answer of a plant store, got status ${status} and ${quote(body)}`;
  return new PlantStoreError("unexpected_answer", message);
}
