/**
 * Bulk loading of an index: ids wait in buckets, and a full bucket is added to its part of the table
 * at once.
 *
 * A table of many ids is larger than every cache, so adding each id as it comes costs a miss or two.
 * Ids whose hashes begin alike have their homes side by side: the part of the table for a full bucket
 * is read from end to end, which the processor does ahead, and then its ids are added while that part
 * is in the second cache. Scans take half the time.
 *
 * Invariants. Equal ids are added in the order they came in, so the first keeps its offset. Which
 * bucket an id is in depends on its hash alone: the index may grow meanwhile. Before `flush` an id
 * may be in the index or not: a full bucket does not wait.
 */
import { turn } from "../clock.ts";
import type { LinePosition } from "../log/format.ts";
import { IdEntries, type IdIndex } from "./id-index.ts";

/** Homes of one bucket, if as many ids come as the index has room for: 416 KiB of the table. */
const BUCKET_HOMES = 2 ** 15;
/** 64 KiB, and 32 MiB in all, which buckets for more than 13 M ids have to share. */
const BUCKET_IDS_MAX = 2730;
const ALL_IDS_MAX = 512 * BUCKET_IDS_MAX;
/** A part of the table is read ahead if it has at most so many homes for each id. */
const AHEAD_HOMES = 64;
/** Ids that are flushed in one turn of the event loop. */
const TURN_IDS = 2 ** 13;

export class IdLoader {
  readonly #index: IdIndex;
  /** How far a hash is shifted to be the number of its bucket. */
  readonly #shift: number;
  readonly #bucketIds: number;
  /** All buckets, one after the other. */
  readonly #entries: IdEntries;
  /** Where the next entry of each bucket goes. */
  readonly #ends: Uint32Array;
  #repeats: LinePosition[] = [];
  /** Whether an id was ever found in the index: a log with one repeat may be full of them. */
  hasRepeats = false;

  /** @param expected about how many ids will come: for few of them, few buckets are enough. */
  constructor(index: IdIndex, expected: number) {
    this.#index = index;
    // Two buckets or more, because a hash cannot be shifted by 32.
    this.#shift = Math.clz32((Math.min(index.homes, expected) / BUCKET_HOMES) | 1);
    const buckets = 2 ** (32 - this.#shift);
    this.#bucketIds = Math.min(BUCKET_IDS_MAX, Math.ceil(ALL_IDS_MAX / buckets));
    this.#entries = new IdEntries(buckets * this.#bucketIds);
    this.#ends = Uint32Array.from({ length: buckets }, (_, number) => number * this.#bucketIds);
  }

  /** Adds the id of a line. @throws RangeError, here or in `flush`, for an offset of 1 TiB or more. */
  add(id: bigint, offset: number, line: number): void {
    this.addWords(Number(BigInt.asIntN(32, id)), Number(id >> 32n), offset, line);
  }

  /** Like `add`, for an id given as two signed words: a bigint for each line costs a scan 50 ns. */
  addWords(low: number, high: number, offset: number, line: number): void {
    const number = this.#index.hashOf(low, high) >>> this.#shift;
    const at = this.#ends[number] as number;
    this.#entries.set(at, low, high, offset, line);
    this.#ends[number] = at + 1;
    if (at + 1 === (number + 1) * this.#bucketIds) this.#empty(number);
  }

  /**
   * Adds all ids that wait to the index, and returns the places of those that it had already, in
   * their order. Add nothing before it has resolved: the bucket may have been passed.
   */
  async flush(): Promise<LinePosition[]> {
    let ids = 0;
    for (const [number, end] of this.#ends.entries()) {
      ids += end - number * this.#bucketIds;
      this.#empty(number);
      if (ids < TURN_IDS) continue;
      ids = 0;
      await turn();
    }
    const repeats = this.#repeats.sort((a, b) => a.offset - b.offset);
    this.#repeats = [];
    return repeats;
  }

  #empty(number: number): void {
    const start = number * this.#bucketIds;
    const end = this.#ends[number] as number;
    const homes = this.#index.homes / this.#ends.length;
    if ((end - start) * AHEAD_HOMES >= homes) {
      this.#index.readAhead(number * 2 ** this.#shift, (number + 1) * 2 ** this.#shift - 1);
    }
    for (const at of this.#index.addEntries(this.#entries, start, end)) {
      this.#repeats.push({ offset: this.#entries.offsetOf(at), line: this.#entries.lineOf(at) });
      this.hasRepeats = true;
    }
    this.#ends[number] = start;
  }
}
