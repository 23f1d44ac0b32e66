/**
 * What a list asks for: how many plants, after which one, and as a page or as a stream.
 *
 * The cursor is an id, because ids never change: it stays good after a repair or a restore, which
 * move the bytes of the log, works with any store, and a client can take it from the last plant it
 * has. Other parameters are ignored.
 */

import type { IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import { INT64_MAX, INT64_MIN, parseCanonicalInt64 } from "../core/int64.ts";
import { cut, encodeJsonString } from "../core/text.ts";

export const LIMIT_DEFAULT = 100;
export const LIMIT_MAX = 1000;

export interface ListQuery {
  readonly limit: number | undefined;
  readonly after: bigint | undefined;
}

/** @throws PlantStoreError `invalid_query`; the message names every fault. */
export function parseListQuery(target: string): ListQuery {
  const parameters = new URLSearchParams(/\?(.*)/s.exec(target)?.[1]);
  const faults: string[] = [];
  const read = <T>(name: string, parse: (text: string) => T | undefined, expected: string) => {
    const texts = parameters.getAll(name);
    if (texts.length === 0) return undefined;
    const text = texts.join(); // several are no number
    const value = parse(text);
    const got = encodeJsonString(cut(text));
    if (value === undefined) faults.push(`${name}: expected ${expected}, got ${got}`);
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

export const NDJSON = "application/x-ndjson";

/** Whether the client prefers a stream to a page, and could notice that it was cut. */
export function wantsStream({ headers, httpVersion }: IncomingMessage): boolean {
  const { accept = "" } = headers;
  return httpVersion !== "1.0" && qualityOf(accept, NDJSON) > qualityOf(accept, "application/json");
}

const QUALITY = /^[ \t]*q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*$/i;

/**
 * The quality of a media type by RFC 9110 section 12.5.1: that of the most exact range that fits
 * it. If no range fits, it is 0, but no request fails because of that (section 12.4.1).
 */
function qualityOf(accept: string, type: string): number {
  const ranges = [type, type.replace(/\/.*/, "/*"), "*/*"]; // the most exact one first
  const qualities: number[] = [];
  for (const [part] of accept.matchAll(/[^,]{3,}/g)) {
    const [range = "", ...parameters] = part.split(";");
    const rank = ranges.indexOf(range.trim().toLowerCase());
    if (rank < 0) continue;
    const given = parameters.map((text) => QUALITY.exec(text)?.[1]).find((text) => text);
    qualities[rank] ??= Number(given ?? 1);
  }
  return qualities.find((quality) => quality !== undefined) ?? 0;
}
