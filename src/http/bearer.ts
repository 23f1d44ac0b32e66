/**
 * The bearer token of a request (RFC 6750 section 2.1), and whether it will do.
 *
 * The scheme covers the whole interface, so this is asked before the path is
 * looked up and before a byte of the body is read. The same answer is given
 * for an unknown, an expired and a revoked token.
 */
import type { IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import type { Scope, TokenVerifier, VerifiedToken } from "../core/services.ts";
import { headerValues } from "./raw-headers.ts";

/** The scheme is case-insensitive (RFC 9110 section 11.1); the token is a `b64token`. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;
/** A bearer header that carries something after the scheme. */
const BEARER_ATTEMPT = /^bearer +[^ ]/i;

/**
 * Who sends the request.
 *
 * @throws PlantStoreError `missing_token` when no token was sent, `invalid_token`
 * when one was and it is not good.
 */
export async function authenticate(
  req: IncomingMessage,
  tokens: TokenVerifier,
): Promise<VerifiedToken> {
  const verdict = tokens.verify(readBearerToken(req));
  const verified = verdict instanceof Promise ? await verdict : verdict;
  if (verified === undefined) {
    throw new PlantStoreError(
      "invalid_token",
      "Authorization: expected a live token, got one that is unknown, expired or revoked",
    );
  }
  return verified;
}

/** @throws PlantStoreError `insufficient_scope`. */
export function requireScope({ scopes }: VerifiedToken, scope: Scope): void {
  if (scopes.includes(scope)) return;
  throw new PlantStoreError(
    "insufficient_scope",
    `Authorization: expected a token with the scope "${scope}", got one with "${scopes.join(" ")}"`,
  );
}

function readBearerToken(req: IncomingMessage): string {
  const values = headerValues(req.rawHeaders, "authorization");
  const [value] = values;
  if (values.length > 1) {
    throw new PlantStoreError(
      "invalid_token",
      `Authorization: expected one header, got ${values.length}`,
    );
  }
  const token = value === undefined ? undefined : BEARER.exec(value)?.[1];
  if (token !== undefined) return token;
  if (value !== undefined && BEARER_ATTEMPT.test(value)) {
    throw new PlantStoreError(
      "invalid_token",
      "Authorization: expected one token of letters, digits and -._~+/ after Bearer",
    );
  }
  throw new PlantStoreError(
    "missing_token",
    `Authorization: expected "Bearer <ACCESS_TOKEN>", got ${value === undefined ? "nothing" : "another scheme or no token"}`,
  );
}
