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
  bad_request: 40001, // the bytes on the connection are not an HTTP request that can be trusted
  invalid_utf8: 40002,
  invalid_json: 40003, // by RFC 8259
  duplicate_member: 40004, // the body has `id`, `name` or `tag` more than once
  invalid_plant: 40005, // the body is JSON but no NewPlant
  conflict: 40006, // the id belongs to a plant with another name or tag
  invalid_query: 40007,
  unknown_cursor: 40008, // no plant has the id after which the list begins
  missing_token: 40101,
  invalid_token: 40102, // unknown, expired or revoked; the client cannot tell which
  insufficient_scope: 40301,
  not_found: 40401,
  unknown_plant: 40402, // the path names a plant, and no plant has its id
  method_not_allowed: 40501,
  request_timeout: 40801,
  body_too_large: 41301,
  unsupported_media_type: 41501,
  unsupported_encoding: 41502,
  expectation_failed: 41701,
  header_too_large: 43101,
  internal: 50001, // a defect of this program, or of the program that embeds it
  overloaded: 50301, // requests or records hold too much memory; nothing was stored
  write_failed: 50302, // the disk refused the write, or a repeat cannot be read: the outcome is unknown
  store_failed: 50303, // the store stopped after a failed sync, or because its log was changed
  closed: 50304,
  tokens_unreadable: 50306, // the token check cannot read which tokens are revoked, so it accepts none
  read_failed: 50307, // plants cannot be read now; the store continues
} as const;

/** Failures of a request, each with an HTTP status and an `error` number. */
export type RequestErrorCode = keyof typeof ERRORS;

/** Failures of the data directory and of its commands; they never reach a client. */
export type DataErrorCode =
  | "locked" // another process holds the data directory
  | "corruption" // the data needs a person, and nothing was changed
  | "unsynced" // a sync failed: memory may hold what the disk lacks, until the machine restarts
  | "io_error" // the operating system refused an operation on a file
  | "token_exists" // a live token has this name
  | "token_unknown"; // no token of this name can be revoked

export type ErrorCode =
  | RequestErrorCode
  | DataErrorCode
  // of plant-store/client:
  | "outcome_unknown" // the call gave up, and the plant may be stored
  | "unavailable" // the call gave up, and nothing was stored
  | "unexpected_answer"; // another program responded, or with an unknown `error` number

/** Every failure except a programmer's mistake, which is a `TypeError` or `RangeError`. */
export class PlantStoreError extends Error {
  /** One of the codes in docs/api.md, docs/embedding.md and docs/client.md. */
  readonly code: ErrorCode;
  /** The `error` number in docs/api.md; `undefined` if a failure with this code has none. */
  readonly number: number | undefined;
  /** The `X-Request-Id` of the response, in errors of `plant-store/client`. */
  readonly requestId: string | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; number?: number | undefined; requestId?: string | undefined } = {},
  ) {
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
