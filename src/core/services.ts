/**
 * The ports: what the HTTP rooms need from a store and from a token check,
 * and nothing more.
 *
 * `http` and `admin` are written against these interfaces alone, so whoever
 * embeds the listener may bring another store or another way to judge tokens.
 */
import type { NewPlant } from "./plant.ts";

/** What a resolved create means: a new record, or one that was there already. */
export type CreateOutcome = "created" | "replayed";

/** A store of plants. Nothing in it is ever changed or removed. */
export interface PlantService {
  /**
   * Stores a plant. Resolves only when the plant is durable.
   *
   * @throws PlantStoreError `conflict` when the id is taken by another plant,
   * `overloaded` when too much waits for the disk or `not_stored` when there is
   * no room for it (nothing was stored), `write_failed` when the outcome is
   * unknown and the same call should be repeated, `store_failed` (likewise
   * unknown) or `closed` when this store takes no more.
   * @throws TypeError or RangeError when this is no plant.
   * @throws PlantStoreError `body_too_large` when its line in the log would be longer than 64 MiB;
   * nothing was stored.
   */
  create(plant: NewPlant): Promise<CreateOutcome>;

  /**
   * The plant with this id, or `undefined`. Sees durable plants only.
   *
   * @throws TypeError or RangeError when the id is no int64; PlantStoreError
   * `store_failed` or `closed`.
   */
  get(id: bigint): Promise<NewPlant | undefined>;

  /**
   * Durable plants, oldest first, in bounded memory: all there are when it is
   * called, or those behind one of them. To start behind a plant must cost no
   * more than to find it. Whoever has enough stops: no more is read then.
   *
   * @throws PlantStoreError, while it is iterated: `unknown_cursor` when there
   * is no plant with the id `after`, `store_failed` or `closed`.
   */
  list(options?: ListOptions): AsyncIterable<NewPlant>;

  /**
   * The same as lines of JSON, `{"id":7,"name":"Fern"}`, each with its line feed, about 32 KiB
   * of whole lines at a time (streams rest after each), left alone once given.
   * A slice may be empty: so much was read that holds none. Where it is offered,
   * streams without a limit are made of it.
   */
  listLines?(options?: ListOptions): AsyncIterable<Uint8Array>;
}

export interface ListOptions {
  /** The id of the plant behind which the list begins. Default: the whole of it. */
  readonly after?: bigint | undefined;
}

/** What a token may do: `write` is the interface's one operation. */
export type Scope = "write" | "read";

/** @internal */
export const SCOPES: readonly Scope[] = ["write", "read"];

/** What people type and logs show, so nothing in it steers a terminal. */
const TOKEN_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

/** @internal */
export function isTokenName(name: string): boolean {
  return TOKEN_NAME.test(name);
}

/** A token that was found good: who it belongs to, never the token itself. */
export interface VerifiedToken {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

/** What a look at a token may come to. */
export type Verdict = VerifiedToken | undefined | null;

/** Judges bearer tokens. */
export interface TokenVerifier {
  /**
   * Who the token belongs to, or `undefined` (`null` will do) when it is
   * unknown, expired or revoked; at once where no waiting is needed. A throw
   * or a rejection is answered 500, unless it is a PlantStoreError with the code
   * of a request fault: `tokens_unreadable` (503) if the check cannot know whether
   * the token was revoked.
   */
  verify(token: string): Verdict | PromiseLike<Verdict>;

  /**
   * Whether an answer of `verify` still stands: the token is neither revoked
   * nor expired meanwhile. Where it is offered, the same header on the same
   * connection is not verified again as long as this says so, and a read under
   * way is refused or cut when it does not; it must know its own answers by
   * identity, for as long as the token is good, and refuse every other object.
   * What it throws has the meaning that it has in `verify`.
   */
  isCurrent?(verified: VerifiedToken): boolean;
}

/** The state of a server; `tokens-unreadable`: every request with a token is answered 503. */
export type ServiceState = "starting" | "ready" | "tokens-unreadable" | "draining" | "failed";

/** What an operator is shown of a store, at one moment. */
export interface StoreStatus {
  readonly plants: number;
  /** Durable bytes of the log. */
  readonly logBytes: number;
  /** Bytes of records that wait for the disk. */
  readonly queueBytes: number;
  /** How much of the log the newest checkpoint on disk covers; `undefined` when there is none. */
  readonly checkpointBytes: number | undefined;
}

/** What an operator is shown of a token: never the token. */
export interface TokenStatus {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Milliseconds since 1970; `undefined` for one that does not expire. */
  readonly expiresAt: number | undefined;
}

/** How much of the log a start has read. */
export interface StartProgress {
  readonly bytes: number;
  readonly total: number;
}

/** What the admin listener shows. All but the disk is known at once. */
export interface Status {
  state(): ServiceState;
  /** While the state is `starting`; `undefined` until the first bytes of the log are read. */
  progress?(): StartProgress | undefined;
  /** `undefined` until the store is open. */
  store(): StoreStatus | undefined;
  /** The live ones. */
  tokens(): readonly TokenStatus[];
  /** Room for plants on the disk; `undefined` where it cannot be told. */
  freeBytes(): Promise<number | undefined>;
}
