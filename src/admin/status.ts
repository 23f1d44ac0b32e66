/** What the admin listener shows: a port that the command line implements, and the state of the service in words. */

import type { DatabaseStatus, StoreStatus, TokenStatus } from "../core/services.ts";

/** Every state, explained to people. */
const MESSAGES = {
  ready: "requests are carried out",
  "out-of-disk": "the disk refuses writes: creates get 503",
  "tokens-unreadable": "the tokens cannot be read: requests get 503; the log has the reason",
  "database-away": "the database does not respond: requests get 503; the log has the reason",
  draining: "the server is stopping: requests in flight are finished",
  failed: "the store has failed: the process ends; the log has the reason",
};

export type State = keyof typeof MESSAGES;
export const STATES = Object.keys(MESSAGES) as State[];

/** What a server reports itself; whether it is out of disk follows from its store and its disk. */
export type ServiceState = Exclude<State, "out-of-disk">;

/** All of it is in memory, so a request for it waits for nothing. */
export interface Status {
  /** Of the program. */
  readonly version: string;
  /** The whole path of the data directory; `undefined` if the store is a database. */
  readonly folder: string | undefined;
  /** The URL of the service. */
  readonly url: string;
  /** The disk that the plants are on, as it was at most 10 s ago; `undefined` if it is unknown. */
  readonly disk: { readonly freeBytes: number; readonly totalBytes: number } | undefined;
  state(): ServiceState;
  store(): StoreStatus;
  /** `undefined` if the store is no database. */
  database(): DatabaseStatus | undefined;
  /** The live tokens. */
  tokens(): readonly TokenStatus[];
}

/**
 * How long a refused write counts; after that the store is out of disk only while the disk has no room. A load
 * balancer that sent nothing more would never learn that writes succeed again.
 */
const REFUSAL_COUNTS_MS = 10_000;
/** The longest batch with default options: a MiB, and a plant as long as a body may be. */
const ROOM_BYTES = 2 * 1024 * 1024;

export function readState(status: Status): { readonly state: State; readonly message: string } {
  const own = status.state();
  const { msSinceRefusal = Number.POSITIVE_INFINITY } = status.store();
  const { freeBytes = ROOM_BYTES } = status.disk ?? {};
  const isFull = Number.isFinite(msSinceRefusal) && freeBytes < ROOM_BYTES;
  const isOutOfDisk = own === "ready" && (isFull || msSinceRefusal < REFUSAL_COUNTS_MS);
  const state = isOutOfDisk ? "out-of-disk" : own;
  return { state, message: MESSAGES[state] };
}
