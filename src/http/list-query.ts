/**
 * What a list asks for: how many plants, after which, and as a page or as a stream.
 *
 * The cursor is an id, because ids never change: it stays good after a repair or a restore, which
 * move every byte of the log, in every store that an embedder may bring, and a client can make one
 * of the last plant it has. Other parameters are ignored.
 */
import type { IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import { INT64_MAX, INT64_MIN, parseCanonicalInt64 } from "../core/int64.ts";
import { cut, encodeJsonString } from "../core/text.ts";
import { trimSpace } from "./request-head.ts";

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

/** The media type of a stream. */
export const NDJSON = "application/x-ndjson";

/** Whether the client prefers a stream to a page, and could notice that it was cut. */
export function wantsStream({ headers: { accept }, httpVersion }: IncomingMessage): boolean {
  return httpVersion !== "1.0" && prefers(accept, NDJSON, "application/json");
}

/**
 * Whether an `Accept` header gives `wanted` a higher quality than `usual` (RFC 9110 section 12.5.1).
 * The quality of a type is that of the most exact range that fits it; of a type that no range fits
 * 0, but no request fails for that (section 12.4.1).
 */
export function prefers(accept: string | undefined, wanted: string, usual: string): boolean {
  if (accept === undefined) return false;
  const [wantedRanges, usualRanges] = [rangesOf(wanted), rangesOf(usual)];
  let [wantedBest, usualBest] = [NO_RANGE, NO_RANGE];
  for (let start = 0, end = 0; start < accept.length; start = end + 1) {
    end = accept.indexOf(",", start);
    if (end < 0) end = accept.length;
    if (end - start < ANY.length) continue;
    const part = accept.slice(start, end);
    wantedBest = better(wantedBest, part, wantedRanges);
    usualBest = better(usualBest, part, usualRanges);
  }
  return wantedBest.quality > usualBest.quality;
}

const ANY = "*/*";
const QUALITY = /^[ \t]*q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*$/i;

/** The most exact range so far that fits a type; the smaller the rank, the more exact. */
interface BestRange {
  readonly rank: number;
  readonly quality: number;
}

const NO_RANGE: BestRange = { rank: Number.POSITIVE_INFINITY, quality: 0 };

/** The ranges that fit a type, the most exact first. */
function rangesOf(type: string): readonly string[] {
  return [type, type.replace(/\/.*/, "/*"), ANY];
}

/** @param part a range with its parameters. */
function better(best: BestRange, part: string, ranges: readonly string[]): BestRange {
  const [range = "", ...parameters] = part.split(";");
  const rank = ranges.indexOf(trimSpace(range).toLowerCase());
  if (rank < 0 || rank >= best.rank) return best;
  const given = parameters.map((text) => QUALITY.exec(text)?.[1]).find((text) => text);
  return { rank, quality: Number(given ?? 1) };
}
