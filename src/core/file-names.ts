/**
 * The names of what lies in a data directory; part of what it promises.
 *
 * They stand together, because `store` and `auth` never meet, and a backup
 * holds the logs of both.
 */

/** The log of plants. */
export const LOG_NAME = "plants.jsonl";
/** The lock of whoever writes it; see log/lock. */
export const LOCK_NAME = "lock";
/** The log of tokens. */
export const TOKEN_LOG_NAME = "tokens.jsonl";
/** The lock of whoever changes a token. */
export const TOKEN_LOCK_NAME = "tokens-lock";
