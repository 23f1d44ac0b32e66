/**
 * Reads the bearer token of a request (RFC 6750 section 2.1) and has it judged. Unknown, expired and
 * revoked tokens get the same answer.
 */

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { PlantStoreError } from "../core/errors.ts";
import type { Scope, TokenVerifier, Verdict, VerifiedToken } from "../core/services.ts";
import { NO_TOKEN } from "./budget.ts";
import { readSoleHeader, SEVERAL } from "./request-head.ts";

/** The scheme is case-insensitive (RFC 9110 section 11.1); the token is a `b64token`. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;
/** A bearer header with anything in place of a token. */
const BEARER_ATTEMPT = /^bearer +[^ ]/i;
const NOT_LIVE = "one that is unknown, expired or revoked";

export class Authenticator {
  readonly #tokens: TokenVerifier;
  /** The last header accepted on each connection: hashing a token costs a tenth of a request. */
  readonly #accepted = new WeakMap<Socket, { header: string; verified: VerifiedToken }>();

  constructor(tokens: TokenVerifier) {
    this.#tokens = tokens;
  }

  /**
   * Returns the name and scopes of the token; a promise only if the token check returns one.
   *
   * @throws PlantStoreError `missing_token` or `invalid_token`, and what the check throws; rejects
   * with these once the result is a promise.
   */
  authenticate(req: IncomingMessage): VerifiedToken | Promise<VerifiedToken> {
    const header = readSoleHeader(req, "authorization") ?? "";
    if (header === SEVERAL) throw invalidToken("several headers");
    const accepted = this.#accepted.get(req.socket);
    if (accepted !== undefined && isSameText(accepted.header, header)) {
      const isCurrent = this.#tokens.isCurrent?.(accepted.verified);
      if (isCurrent === true) return accepted.verified;
      if (typeof isCurrent === "object") {
        return Promise.resolve(isCurrent).then((isStill) => {
          return isStill ? accepted.verified : this.#verify(req.socket, header);
        });
      }
    }
    return this.#verify(req.socket, header);
  }

  /** The name of the last good token on a connection. */
  senderOn(socket: Socket): string {
    return this.#accepted.get(socket)?.verified.name ?? NO_TOKEN;
  }

  #verify(socket: Socket, header: string): VerifiedToken | Promise<VerifiedToken> {
    this.#accepted.delete(socket);
    const verdict = this.#tokens.verify(parseBearer(header));
    const accept = (verified: Verdict) => {
      if (!verified) throw invalidToken(NOT_LIVE);
      this.#accepted.set(socket, { header, verified });
      return verified;
    };
    // Also a promise of another realm or library.
    return verdict && "then" in verdict ? Promise.resolve(verdict).then(accept) : accept(verdict);
  }

  /**
   * Returns a promise, which the caller must await at once, only if the token check returns one.
   *
   * @throws PlantStoreError `invalid_token` if the token was revoked or expired meanwhile.
   */
  requireCurrent(sender: VerifiedToken): undefined | Promise<void> {
    if (this.#tokens.isCurrent === undefined) return undefined;
    const isCurrent = this.#tokens.isCurrent(sender);
    if (isCurrent === true) return undefined; // nearly always
    if (!isCurrent) throw invalidToken(NOT_LIVE);
    return Promise.resolve(isCurrent).then((isStill) => {
      if (!isStill) throw invalidToken(NOT_LIVE);
    });
  }
}

/** Takes the same time, no matter where two secrets differ. */
function isSameText(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let at = 0; at < a.length; at++) difference |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return difference === 0;
}

export function insufficientScope({ scopes }: VerifiedToken, scope: Scope): PlantStoreError {
  return new PlantStoreError(
    "insufficient_scope",
    `Authorization: expected a token with the scope "${scope}", got one with "${scopes.join(" ")}"`,
  );
}

function parseBearer(header: string): string {
  const token = BEARER.exec(header)?.[1];
  if (token !== undefined) return token;
  if (BEARER_ATTEMPT.test(header)) throw invalidToken("other characters");
  throw new PlantStoreError(
    "missing_token",
    `Authorization: expected "Bearer <ACCESS_TOKEN>", got ${header === "" ? "nothing" : "another scheme or no token"}`,
  );
}

function invalidToken(got: string): PlantStoreError {
  return new PlantStoreError("invalid_token", `Authorization: expected a live token, got ${got}`);
}
