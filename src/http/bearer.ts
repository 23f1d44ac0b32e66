/**
 * The bearer token of a request (RFC 6750 section 2.1), and whether it is good. The scheme covers the
 * whole interface, so this is judged before the path is looked up and before a byte of the body is
 * read. Unknown, expired and revoked tokens get the same answer.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { PlantStoreError } from "../core/errors.ts";
import type { Scope, TokenVerifier, Verdict, VerifiedToken } from "../core/services.ts";
import { readSoleHeader, SEVERAL } from "./request-head.ts";

/** The scheme is case-insensitive (RFC 9110 section 11.1); the token is a `b64token`. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;
/** A bearer header that carries something after the scheme. */
const BEARER_ATTEMPT = /^bearer +[^ ]/i;

/** Judges the senders of requests by a token check. */
export class Authenticator {
  readonly #tokens: TokenVerifier;
  /**
   * The header that was accepted last on each connection: to hash a token with every request costs a
   * tenth of it. Remembered as long as the check says so.
   */
  readonly #accepted = new WeakMap<Socket, { header: string; verified: VerifiedToken }>();

  constructor(tokens: TokenVerifier) {
    this.#tokens = tokens;
  }

  /**
   * Who sends the request; at once if the token check answers at once.
   *
   * @throws PlantStoreError `missing_token` or `invalid_token`, and what the check throws; as a
   * rejection if the check takes its time.
   */
  authenticate(req: IncomingMessage): VerifiedToken | Promise<VerifiedToken> {
    const header = readAuthorization(req);
    const accepted = this.#accepted.get(req.socket);
    if (
      accepted !== undefined &&
      isSameText(accepted.header, header) &&
      this.#tokens.isCurrent?.(accepted.verified) === true
    ) {
      return accepted.verified;
    }
    const verdict = this.#tokens.verify(parseBearer(header));
    const accept = (judged: Verdict) => {
      const verified = requireGood(judged);
      if (this.#tokens.isCurrent !== undefined)
        this.#accepted.set(req.socket, { header, verified });
      return verified;
    };
    return isThenable(verdict) ? Promise.resolve(verdict).then(accept) : accept(verdict);
  }

  /**
   * @throws PlantStoreError `invalid_token` if the sender is accepted no longer; what the check
   * throws.
   */
  requireCurrent(sender: VerifiedToken): void {
    if (this.#tokens.isCurrent?.(sender) === false) requireGood(undefined);
  }
}

/** Compares in a time that does not depend on where two secrets differ. */
function isSameText(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let at = 0; at < a.length; at++) difference |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return difference === 0;
}

function requireGood(verified: Verdict): VerifiedToken {
  // Look-ups of JavaScript programs often say null.
  if (verified !== undefined && verified !== null) return verified;
  throw new PlantStoreError(
    "invalid_token",
    "Authorization: expected a live token, got one that is unknown, expired or revoked",
  );
}

/** Also of another realm or library. */
function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | null | undefined)?.then === "function";
}

export function insufficientScope({ scopes }: VerifiedToken, scope: Scope): PlantStoreError {
  return new PlantStoreError(
    "insufficient_scope",
    `Authorization: expected a token with the scope "${scope}", got one with "${scopes.join(" ")}"`,
  );
}

/** The one Authorization header; empty where there is none. */
function readAuthorization(req: IncomingMessage): string {
  const header = readSoleHeader(req, "authorization");
  if (header !== SEVERAL) return header ?? "";
  throw new PlantStoreError("invalid_token", "Authorization: expected one header, got several");
}

function parseBearer(header: string): string {
  const token = BEARER.exec(header)?.[1];
  if (token !== undefined) return token;
  if (BEARER_ATTEMPT.test(header)) {
    throw new PlantStoreError(
      "invalid_token",
      "Authorization: expected one token of letters, digits and -._~+/ after Bearer",
    );
  }
  throw new PlantStoreError(
    "missing_token",
    `Authorization: expected "Bearer <ACCESS_TOKEN>", got ${header === "" ? "nothing" : "another scheme or no token"}`,
  );
}
