/**
 * A store and a token check in memory, for tests of programs that embed the service: `plant-store/testing`.
 *
 * Invariant. Plants and tokens follow the rules of a store in a folder: the same outcomes, errors and order.
 * Knows no files and no HTTP.
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
import type { PlantService, TokenVerifier, VerifiedToken } from "./core/services.ts";
import { hashToken, isLive, makeRecord, type NewToken, type TokenRecord } from "./core/token.ts";

export interface TestToken extends NewToken {
  /** What a client sends after `Bearer`: letters, digits and `-._~+/`. */
  readonly token: string;
}

export interface TestStoreOptions {
  /** Default: none, so that every request is answered 401. */
  readonly tokens?: readonly TestToken[] | undefined;
}

/** Holds what `createRequestListener` and `PlantServer.start` take. */
export interface TestStore extends AsyncDisposable {
  readonly plants: PlantService;
  readonly tokens: TokenVerifier;
  /** Every later call of `plants` is refused with the code `closed`. */
  close(): Promise<void>;
}

/**
 * An empty store in memory, and the tokens that are accepted.
 *
 * @throws TypeError or RangeError for a token that is not possible.
 */
export function createTestStore({ tokens = [] }: TestStoreOptions = {}): TestStore {
  let isClosed = false;
  const plants = makePlants(() => {
    if (isClosed) throw new PlantStoreError("closed", "Cannot use the store: it is closed");
  });
  const close = async () => {
    isClosed = true;
  };
  return { plants, tokens: acceptTokens(tokens), close, [Symbol.asyncDispose]: close };
}

function makePlants(assertUsable: () => void): PlantService {
  const plants: NewPlant[] = [];
  const positions = new Map<bigint, number>();
  const find = (id: bigint) => {
    assertUsable();
    return plants[positions.get(id) ?? -1];
  };
  return {
    async create(given) {
      const plant = validatePlant(given);
      const { id } = plant;
      const stored = find(id);
      if (stored && !isSamePlant(stored, plant)) throw conflict(id);
      if (stored) return "replayed";
      positions.set(id, plants.push(plant) - 1);
      return "created";
    },
    async getLine(id) {
      assertInt64(id);
      const plant = find(id);
      return plant && Buffer.from(encodeNewPlant(plant));
    },
    async *listLines({ after } = {}) {
      if (after !== undefined) assertInt64(after);
      assertUsable();
      const last = after === undefined ? -1 : positions.get(after);
      if (last === undefined) throw unknownCursor(after);
      for (const plant of plants.slice(last + 1)) yield Buffer.from(`${encodeNewPlant(plant)}\n`);
    },
  };
}

/** The global `Date` decides about an expiry, so that a test can move it. */
function acceptTokens(given: readonly TestToken[]): TokenVerifier {
  const all: { readonly record: TokenRecord; readonly verdict: VerifiedToken }[] = [];
  for (const { token, ...newToken } of given) {
    const record = makeRecord(token, newToken, Date.now());
    all.push({ record, verdict: { name: record.name, scopes: record.scopes } });
  }
  const live = () => all.filter(({ record }) => isLive(record, Date.now()));
  return {
    verify: (token) => live().find(({ record }) => record.hash === hashToken(token))?.verdict,
    isCurrent: (verified) => live().some(({ verdict }) => verdict === verified),
  };
}
