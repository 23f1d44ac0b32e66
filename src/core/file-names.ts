/** The names of the files in a data directory (docs/data-directory.md). */

/** The log of plants. */
export const LOG_NAME = "plants.jsonl";
/** The lock of the process that writes it (log/lock). */
export const LOCK_NAME = "lock";
/** The log of tokens. */
export const TOKEN_LOG_NAME = "tokens.jsonl";
/** The lock of the process that changes a token. */
export const TOKEN_LOCK_NAME = "tokens-lock";
/** Where `restore` puts its copy until that is verified. */
export const RESTORE_NAME = "restore.partial";
