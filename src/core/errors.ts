/**
 * The error class of the store, its codes, and the `error` number of each code that a client may receive.
 *
 * A code never changes; a message may. The server sends the message of a code in `ERRORS` to the client, so it holds
 * no path, token or stack: those are in the `cause`. Uses nothing that a browser lacks.
 */

/**
 * Why a request fails: each code with its `error` number, HTTP status x 100 + n. A number never changes. None
 * ends in 00, so a client can tell them from the bodies of proxies.
 */
export const ERRORS = {
  bad_request: 40001, // the request is not valid HTTP, or reads with a body
  invalid_utf8: 40002, // the body is not UTF-8
  invalid_json: 40003, // the body is not JSON (RFC 8259); the message names the byte
  duplicate_member: 40004, // `id`, `name` or `tag` is there more than once
  invalid_plant: 40005, // the body is JSON, but no plant; the message names every error
  conflict: 40006, // the id belongs to a plant with another name or tag
  invalid_query: 40007, // `limit` or `after` of a list is wrong, or there is another parameter
  unknown_cursor: 40008, // no plant has the id given as `after`
  missing_token: 40101, // there is no bearer token
  invalid_token: 40102, // the token is unknown, expired or revoked
  insufficient_scope: 40301, // the token lacks the scope that `WWW-Authenticate` names
  not_found: 40401, // there is nothing at this path
  unknown_plant: 40402, // no plant has this id
  method_not_allowed: 40501, // the path does not have this method; `Allow` lists its methods
  request_timeout: 40801, // the headers or the body arrived too slowly
  body_too_large: 41301, // the body is longer than 1 MiB, or has too many small chunks
  unsupported_media_type: 41501, // `Content-Type` is not `application/json` in UTF-8
  unsupported_encoding: 41502, // `Content-Encoding` is not `identity`
  expectation_failed: 41701, // `Expect` is not `100-continue`
  header_too_large: 43101, // the headers are longer than 16 KiB, or more than 100
  internal: 50001, // a defect of the server, or of the program around it; its log has the reason
  overloaded: 50301, // too much is in flight, of this token or in all; nothing was stored
  write_failed: 50302, // the disk has no room, and nothing was stored; or the database did not confirm it
  store_failed: 50303, // the store has failed, or its log was changed; the outcome is unknown
  closed: 50304, // the server is stopping
  tokens_unreadable: 50306, // the server cannot read its tokens; nothing was stored
  read_failed: 50307, // a plant or a page cannot be read now
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
  | "unexpected_response"; // another program responded, or with an unknown `error` number

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
