/**
 * A store and a token check in memory, for tests of programs that embed the service: `plant-store/testing`.
 * Invariant. Outcomes, errors and order are those of a store in a folder. Knows no files and no HTTP.
 */
import { PlantStoreError } from "./core/errors.ts";
import { assertInt64 } from "./core/json.ts";
import {
  conflict,
  encodeNewPlant,
  isSamePlant,
  type NewPlant,
  unknownCursor,
  validatePlant,
} from "./core/plant.ts";
import type { PlantService, TokenVerifier } from "./core/services.ts";
import { hashToken, isLive, makeRecord, type NewToken, TIME_MAX } from "./core/token.ts";

export interface TestToken extends Omit<NewToken, "expiresAt"> {
  /** What a client sends after `Bearer`: letters, digits and `-._~+/`. */
  readonly token: string;
  /** A date, or milliseconds since 1970; a past one makes an expired token. Default: never. */
  readonly expiresAt?: Date | number | undefined;
}

/** Holds what `createRequestListener` and `PlantServer.start` take. */
export interface TestStore extends AsyncDisposable {
  readonly plants: PlantService;
  readonly tokens: TokenVerifier;
  /** Every later call of `plants` is refused with the code `closed`. */
  close(): Promise<void>;
}

/** An empty store in memory. @throws TypeError or RangeError for a token that no request can use. */
export function createTestStore(given: { tokens?: readonly TestToken[] } = {}): TestStore {
  const stored = new Map<bigint, NewPlant>();
  let isClosed = false;
  const find = (id: bigint | undefined) => {
    if (isClosed) throw new PlantStoreError("closed", "The store is closed");
    return stored.get(id as bigint);
  };
  const plants: PlantService = {
    async create(plantGiven) {
      const plant = validatePlant(plantGiven);
      const known = find(plant.id);
      if (known && !isSamePlant(known, plant)) throw conflict(plant.id);
      stored.set(plant.id, known ?? plant);
      return known ? "replayed" : "created";
    },
    async getLine(id) {
      assertInt64(id);
      const plant = find(id);
      return plant && Buffer.from(encodeNewPlant(plant));
    },
    async *listLines({ after } = {}) {
      if (after !== undefined) assertInt64(after);
      const last = find(after);
      if (after !== undefined && last === undefined) throw unknownCursor(after);
      const all = [...stored.values()];
      const rest = all.slice(all.indexOf(last as NewPlant) + 1); // all, if there is no last one
      for (const plant of rest) yield Buffer.from(`${encodeNewPlant(plant)}\n`);
    },
  };
  const close = async () => {
    isClosed = true;
  };
  return { plants, tokens: acceptTokens(given.tokens), close, [Symbol.asyncDispose]: close };
}

/** The global `Date` decides about an expiry, so that a test can move it. */
function acceptTokens(given: readonly TestToken[] = []): TokenVerifier {
  const records = given.map(({ token, expiresAt = TIME_MAX, ...newToken }) => {
    if (typeof token !== "string" || !/^[\w.~+/-]+=*$/.test(token)) {
      throw new TypeError(`token "${newToken.name}": expected letters, digits and -._~+/`);
    }
    if (!(Number(expiresAt) <= TIME_MAX)) throw new RangeError("expiresAt: expected a time");
    return { ...makeRecord(token, newToken, Date.now()), expiresAt: Number(expiresAt) };
  });
  const live = () => records.filter((record) => isLive(record, Date.now()));
  return { verify: (token) => live().find(({ hash }) => hash === hashToken(token)) };
}
