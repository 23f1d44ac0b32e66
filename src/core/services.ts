/** The ports between rooms: store, token check, clock, and figures for the operator. A program may bring its own. */

import type { NewPlant } from "./plant.ts";

/** Whether a create made a new record, or its plant was there already. */
export type CreateOutcome = "created" | "replayed";

/** A store of plants. Nothing in it is ever changed or removed. */
export interface PlantService {
  /**
   * Stores a plant. Resolves once it is durable.
   *
   * @throws TypeError or RangeError unless it is a plant. PlantStoreError: after `conflict` (another plant has the
   * id), `overloaded`, `body_too_large` (a line of more than 4 MiB) and `closed` nothing was stored; after
   * `write_failed` (call again) and `store_failed` (this store takes no more) the outcome is unknown.
   */
  create(plant: NewPlant): Promise<CreateOutcome>;

  /**
   * The durable plant with this id as `encodeNewPlant` writes it, in bytes that are not changed later.
   *
   * @throws TypeError or RangeError unless the id is an int64; PlantStoreError `read_failed` (call again),
   * `store_failed` or `closed`.
   */
  getLine(id: bigint): Promise<Uint8Array | undefined>;

  /**
   * The plants that are durable at the call, or those after one of them, oldest first, in slices of about 32 KiB
   * of whole lines with their line feeds; a slice may be empty, and is not changed later.
   *
   * @throws PlantStoreError, during iteration: `unknown_cursor` if no plant has the id `after`,
   * `read_failed`, `store_failed` or `closed`.
   */
  listLines(options?: ListOptions): AsyncIterable<Uint8Array>;
}

export interface ListOptions {
  /** The list begins after the plant with this id. Default: with the first plant. */
  readonly after?: bigint | undefined;
}

/** @internal */
export type Timer = { unref(): unknown };

/** Time and chance (src/clock.ts). @internal */
export interface Clock {
  /** The monotonic clock, in milliseconds. */
  monotonicMs(): number;
  /** Milliseconds since 1970, UTC. */
  wallMs(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer | undefined): void;
  setInterval(run: () => void, ms: number): Timer;
  clearInterval(timer: Timer | undefined): void;
  /** Waits for the next turn of the event loop, in which sockets were read. */
  turn(): Promise<void>;
  randomBytes(count: number): Buffer;
}

/** What a token may do: `write` is the interface's one operation. */
export type Scope = "write" | "read";

/** The name and scopes of an accepted token, never the token itself. */
export interface VerifiedToken {
  /** Whose request it is. Memory and connections are shared among names, so a client must not choose its own. */
  readonly name: string;
  readonly scopes: readonly Scope[];
}

/** The result of `verify`; `undefined` and `null` mean: refused. */
export type Verdict = VerifiedToken | undefined | null;

/** Verifies bearer tokens: at each request, before each slice of a list, and when a body came late. */
export interface TokenVerifier {
  /**
   * Returns the name and scopes of a token, or `undefined` or `null` if it is unknown, expired or revoked.
   *
   * @throws PlantStoreError `tokens_unreadable`, a 503, if it cannot know; other errors are a 500.
   */
  verify(token: string): Verdict | Promise<Verdict>;
}

/** Says which peers are trusted proxies; a `BlockList` of `node:net` is one. */
export interface TrustedProxies {
  check(address: string, family: "ipv4" | "ipv6"): boolean;
}

/** The figures of a store for the operator, at one moment. */
export interface StoreStatus {
  /** An estimate, if the store is a database; absent until the database has one. */
  readonly plants?: number | undefined;
  /** Durable bytes of the log; absent if there is no log. */
  readonly logBytes?: number;
  /** Bytes of records that wait for the disk or the database. */
  readonly queueBytes: number;
  /** How long ago the disk had no room for a write; absent if it had room for the last one. */
  readonly msSinceRefusal?: number | undefined;
}

/** What an operator sees of a database. */
export interface DatabaseStatus {
  /** The host in use; `undefined` while none is. */
  readonly host: string | undefined;
  /** Whether commits wait for a standby; `undefined` before the first probe. */
  readonly isSynchronous: boolean | undefined;
  /** Milliseconds since the newest proof that this host is the primary began. */
  readonly leaseAgeMs: number;
}

/** A token as the operator sees it: never the token itself. */
export interface TokenStatus {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Milliseconds since 1970; `undefined` if it does not expire. */
  readonly expiresAt: number | undefined;
}
