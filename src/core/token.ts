/**
 * The form of a bearer token and its hash.
 *
 * A token is `pst_` and 256 random bits in base64url. With that much entropy a slow hash would add
 * nothing: SHA-256 cannot be searched backwards, and equal digests mean equal tokens. Randomness is
 * not made here but handed in.
 */
import { createHash } from "node:crypto";

/** @internal */
export const TOKEN_BYTES = 32;

/**
 * @param random `TOKEN_BYTES` bytes that nobody can guess.
 * @throws RangeError for any other number of bytes.
 * @internal
 */
export function formatToken(random: Buffer): string {
  if (random.length !== TOKEN_BYTES) {
    throw new RangeError(`random: expected ${TOKEN_BYTES} bytes, got ${random.length}`);
  }
  return `pst_${random.toString("base64url")}`;
}

/** The SHA-256 of a token, in hexadecimal. @internal */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
