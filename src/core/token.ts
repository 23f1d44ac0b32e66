/**
 * The form of a bearer token and its hash.
 *
 * A token is `pst_` and 256 random bits in base64url. Their entropy makes a slow hash needless: no
 * search finds the token of a SHA-256. The caller provides the randomness.
 */
import { createHash } from "node:crypto";

/** @internal */
export const TOKEN_BYTES = 32;

/**
 * @param random `TOKEN_BYTES` bytes that nobody can guess.
 * @internal
 */
export function formatToken(random: Buffer): string {
  return `pst_${random.toString("base64url")}`;
}

/** The SHA-256 of a token, in hexadecimal. @internal */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
