/**
 * The error class of the store, and its codes.
 *
 * Programs look at the code, which never changes; the message is for people and may. The message of
 * a request code is shown to the client, so it holds no path, token or stack: what only the operator
 * needs is the `cause`. http/answer maps each code to an HTTP status.
 */

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
  | "closed"
  /** There is no room for another plant; nothing was stored. */
  | "not_stored";

/** Faults of the data directory and of its commands; they never reach a client. */
export type DataErrorCode =
  /** Another process holds the data directory. */
  | "locked"
  /** The data needs a person, and nothing was changed. */
  | "corruption"
  /** A sync of the log has failed, and its copy, too: what was read may not be on disk. */
  | "unsynced"
  /** The operating system refused an operation on a file. */
  | "io_error"
  /** A live token has this name already. */
  | "token_exists"
  /** No live token has this name. */
  | "token_unknown";

export type ErrorCode = RequestErrorCode | DataErrorCode;

/** Every failure except a programmer's mistake, which is a `TypeError` or `RangeError`. */
export class PlantStoreError extends Error {
  /** One of the codes in docs/api.md and docs/embedding.md. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "PlantStoreError";
    this.code = code;
  }
}
