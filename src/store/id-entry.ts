/**
 * An id on its way into an index: words in an `Int32Array`, one entry behind
 * the other, so that many are handed on at once.
 *
 * All words are signed, and so are the halves and hashes of ids wherever they
 * are words: V8 gives a number that is no signed 32-bit integer memory of its
 * own at each call that it is not inlined into. What an index or a loader does
 * with entries is not known here.
 */
import type { LinePosition } from "../log/format.ts";

/** The low half of an id stands first. */
export const ENTRY_WORDS = 6;
export const HIGH = 1;
export const HASH = 2;
/** The offset plus one below 2^32, as a slot holds it. */
export const DIGITS = 3;
const LINE = 4;
/** What is 2^32 and above of the offset plus one, and of the line: both are below 2^40. */
const RESTS = 5;
const REST_BITS = 8;
/** What a word holds, its sign taken for a bit. */
const WORD = 2 ** 32;

/** The first offset that does not fit: one byte short of 1 TiB. */
export const OFFSET_LIMIT = 2 ** 40 - 1;

/** @throws RangeError for an offset of `OFFSET_LIMIT` or more. */
export function assertOffset(offset: number): void {
  if (offset >= OFFSET_LIMIT)
    throw new RangeError(`offset: expected less than ${OFFSET_LIMIT}, got ${offset}`);
}

/** @throws RangeError for an offset of `OFFSET_LIMIT` or more. */
export function writeEntry(
  words: Int32Array,
  at: number,
  low: number,
  high: number,
  hash: number,
  offset: number,
  line: number,
): void {
  assertOffset(offset);
  const stored = offset + 1;
  words[at] = low;
  words[at + HIGH] = high;
  words[at + HASH] = hash;
  words[at + DIGITS] = stored;
  words[at + LINE] = line;
  words[at + RESTS] = (Math.floor(stored / WORD) << REST_BITS) | Math.floor(line / WORD);
}

/** What belongs above the digits. */
export function topOf(words: Int32Array, at: number): number {
  return (words[at + RESTS] as number) >> REST_BITS;
}

/** Where the line of an entry is. */
export function positionOf(words: Int32Array, at: number): LinePosition {
  const rests = words[at + RESTS] as number;
  return {
    offset: joined(words[at + DIGITS] as number, rests >> REST_BITS) - 1,
    line: joined(words[at + LINE] as number, rests % 2 ** REST_BITS),
  };
}

function joined(digits: number, top: number): number {
  return (digits >>> 0) + top * WORD;
}
