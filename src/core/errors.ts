/**
 * The error class of the store, its codes, and the `error` number of each code that a client may receive.
 *
 * Programs compare the code, which never changes; the message is for people and may change. The server sends
 * the message of a code in `ERRORS` to the client, so it holds no path, token or stack: what only the operator
 * needs is the `cause`. Uses nothing that a browser lacks.
 */

/**
 * Why a request fails: each code with its `error` number, HTTP status x 100 + n. A number never changes. None
 * ends in 00, so a client can tell them from the bodies of proxies.
 */
export const ERRORS = {
  /** The bytes on the connection are not an HTTP request that can be trusted. */
  bad_request: 40001,
  /** The body is not UTF-8. */
  invalid_utf8: 40002,
  /** The body is not JSON by RFC 8259. */
  invalid_json: 40003,
  /** The body has `id`, `name` or `tag` more than once. */
  duplicate_member: 40004,
  /** The body is JSON but no NewPlant (docs/api.md). */
  invalid_plant: 40005,
  /** The id belongs to a plant with another name or tag. */
  conflict: 40006,
  /** `limit` or `after` in the query of a list is invalid. */
  invalid_query: 40007,
  /** No plant has the id after which the list begins. */
  unknown_cursor: 40008,
  missing_token: 40101,
  /** Unknown, expired or revoked; the client cannot tell which. */
  invalid_token: 40102,
  insufficient_scope: 40301,
  not_found: 40401,
  /** The path names a plant, and no plant has its id. */
  unknown_plant: 40402,
  method_not_allowed: 40501,
  request_timeout: 40801,
  body_too_large: 41301,
  unsupported_media_type: 41501,
  unsupported_encoding: 41502,
  expectation_failed: 41701,
  header_too_large: 43101,
  /** A defect of this program, or of the program that embeds it; its log has the reason. */
  internal: 50001,
  /** Requests or records hold too much memory; nothing was stored. */
  overloaded: 50301,
  /**
   * The disk refused this write, or the stored plant with this id cannot be read. The outcome is unknown until
   * the request is repeated.
   */
  write_failed: 50302,
  /** The store stopped after a failed sync, or because its log was changed or removed. */
  store_failed: 50303,
  /** The store was closed. */
  closed: 50304,
  /** The token check cannot read which tokens are revoked, so it accepts none. */
  tokens_unreadable: 50306,
  /** Plants cannot be read now, because of the disk or a lack of memory; the store continues. */
  read_failed: 50307,
} as const;

/** Failures of a request, each with an HTTP status and an `error` number. */
export type RequestErrorCode = keyof typeof ERRORS;

/** Failures of the data directory and of its commands; they never reach a client. */
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
  /** Of `plant-store/client`: the call gave up, and the plant may be stored. */
  | "outcome_unknown"
  /** Of `plant-store/client`: the call gave up, and nothing was stored. */
  | "unavailable"
  /** Of `plant-store/client`: an answer of another program, or with an unknown `error` number. */
  | "unexpected_answer";

interface ErrorOptions {
  readonly cause?: unknown;
  readonly number?: number | undefined;
  readonly requestId?: string | undefined;
}

/** Every failure except a programmer's mistake, which is a `TypeError` or `RangeError`. */
export class PlantStoreError extends Error {
  /** One of the codes in docs/api.md, docs/embedding.md and docs/client.md. */
  readonly code: ErrorCode;
  /** The `error` number in docs/api.md; `undefined` if a failure with this code has none. */
  readonly number: number | undefined;
  /** The `X-Request-Id` of the response, in errors of `plant-store/client`. */
  readonly requestId: string | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options);
    this.name = "PlantStoreError";
    this.code = code;
    this.requestId = options.requestId;
    this.number = options.number ?? (ERRORS as Readonly<Record<string, number>>)[code];
  }
}

/** The HTTP status that belongs to an `error` number. @internal */
export function statusOf(error: number): number {
  return Math.floor(error / 100);
}
