/**
 * What the query of a list asks for: how many plants, and behind which.
 *
 * The cursor is an id, because ids never change: it stays good as long as its
 * plant is there, also after a repair or a restore, which move every byte of the
 * log, in every store that an embedder may bring, and a client can make one of
 * the last plant it has.
 * Parameters that are not ours are ignored, like every query elsewhere.
 */
import { cut } from "../core/cut.ts";
import { PlantStoreError } from "../core/errors.ts";
import { INT64_MAX, INT64_MIN, parseCanonicalInt64 } from "../core/int64.ts";
import { encodeJsonString } from "../core/json-string.ts";

export const LIMIT_DEFAULT = 100;
export const LIMIT_MAX = 1000;

export interface ListQuery {
  readonly limit: number | undefined;
  readonly after: bigint | undefined;
}

/** @throws PlantStoreError `invalid_query`; the message names every fault. */
export function parseListQuery(target: string): ListQuery {
  const start = target.indexOf("?");
  if (start < 0) return { limit: undefined, after: undefined };
  const parameters = new URLSearchParams(target.slice(start + 1));
  const faults: string[] = [];
  const read = <T>(name: string, parse: (text: string) => T | undefined, expected: string) => {
    const [text, ...others] = parameters.getAll(name);
    if (text === undefined) return undefined;
    const value = others.length === 0 ? parse(text) : undefined;
    if (value === undefined) {
      const got = others.length === 0 ? encodeJsonString(cut(text)) : `${others.length + 1} values`;
      faults.push(`${name}: expected ${expected}, got ${got}`);
    }
    return value;
  };
  const limit = read("limit", parseLimit, `one whole number from 1 to ${LIMIT_MAX}`);
  const after = read("after", parseCanonicalInt64, `one id from ${INT64_MIN} to ${INT64_MAX}`);
  if (faults.length > 0) throw new PlantStoreError("invalid_query", faults.join("; "));
  return { limit, after };
}

function parseLimit(text: string): number | undefined {
  const limit = Number(text);
  return /^[1-9][0-9]{0,3}$/.test(text) && limit <= LIMIT_MAX ? limit : undefined;
}
