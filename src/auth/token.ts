/**
 * Bearer tokens: made and hashed.
 *
 * A token is `pst_` and 256 random bits. With that much entropy a slow hash
 * would add nothing: SHA-256 cannot be searched backwards, and equal digests
 * mean equal tokens. The token itself is shown once and stored nowhere.
 */
import { createHash, randomBytes } from "node:crypto";

const TOKEN_BYTES = 32;

export function generateToken(): string {
  return `pst_${randomBytes(TOKEN_BYTES).toString("base64url")}`;
}

/** The SHA-256 of a token, in hexadecimal. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
