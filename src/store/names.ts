/** The names that a store has in its data directory; part of what it promises. */

/** The log of plants. */
export const LOG_NAME = "plants.jsonl";
/** The directory lock; see log/lock. */
export const LOCK_NAME = "lock";
