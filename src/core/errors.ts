/**
 * The one error class of the store, and the list of its codes.
 *
 * A code never changes and is what programs look at; a message is for people
 * and may change with any release. The message of a request code is shown to
 * the client as it stands, so it never holds a path, a token or a stack: what
 * the operator needs besides goes into `cause`. Which HTTP status a code
 * becomes is not known here (see http/reply).
 */

/** Faults of a request, each with an HTTP status and an `error` number in http/reply. */
export type RequestErrorCode =
  /** The bytes on the connection are not an HTTP request we can trust. */
  | "bad_request"
  /** The body is not JSON by RFC 8259. */
  | "invalid_json"
  /** The body is not UTF-8. */
  | "invalid_utf8"
  /** `id`, `name` or `tag` stands more than once in the body. */
  | "duplicate_member"
  /** The body is JSON but no NewPlant (README, "The contract"). */
  | "invalid_plant"
  /** The id is taken by a plant with another name or tag. */
  | "conflict"
  /** `limit` or `after` in the query of a list is not what it may be. */
  | "invalid_query"
  /** A list is to go on behind a plant that is not there. */
  | "unknown_cursor"
  | "missing_token"
  /** Unknown, expired and revoked look the same to the client. */
  | "invalid_token"
  /** The token check cannot learn which tokens are revoked, so it accepts none. */
  | "tokens_unreadable"
  | "insufficient_scope"
  | "not_found"
  /** The path is one of ours, and no plant has its id. */
  | "unknown_plant"
  | "method_not_allowed"
  | "request_timeout"
  | "body_too_large"
  | "unsupported_media_type"
  | "unsupported_encoding"
  | "expectation_failed"
  | "header_too_large"
  /** A defect of this program, or of the one it is mounted in; the details are the operator's. */
  | "internal"
  /** More bytes wait for the disk, or for the rest of a body, than the limit allows: nothing was stored. */
  | "overloaded"
  /** The disk refused this write: the outcome is unknown until the request is repeated. */
  | "write_failed"
  /** The store stopped after a failed sync or a log that was taken away from under it. */
  | "store_failed"
  /** The store was closed. */
  | "closed"
  /** There is no room for another plant, and nothing was written. */
  | "not_stored";

/** Faults of the data directory and of its commands; they never reach a client. */
export type DataErrorCode =
  /** Another process holds the data directory. */
  | "locked"
  /** The data needs a person: nothing was changed. */
  | "corruption"
  /** The operating system refused an operation on a file. */
  | "io_error"
  /** There is a live token of this name already. */
  | "token_exists"
  /** There is no live token of this name. */
  | "token_unknown";

export type ErrorCode = RequestErrorCode | DataErrorCode;

/** Every failure that is not a programmer's mistake (those are `TypeError` and `RangeError`). */
export class PlantStoreError extends Error {
  /** Stable for ever; see the table in the README. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "PlantStoreError";
    this.code = code;
  }
}
