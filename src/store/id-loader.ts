/**
 * Bulk loading of an index: ids wait in a bucket for each of its tables, and a full bucket is added
 * at once.
 *
 * An index of many ids is larger than every cache, so adding each id as it comes costs a miss or two.
 * The table of a full bucket is in the second cache after the first few ids of it.
 *
 * Invariants. Equal ids are added in the order they came in, so the first keeps its offset. Before
 * `flush` an id may be in the index or not: a full bucket does not wait.
 */
import { turn } from "../clock.ts";
import type { LinePosition } from "../log/lines.ts";
import { IdEntries, type IdIndex, TABLES } from "./id-index.ts";

/** 32 MiB in all. */
const BUCKET_IDS_MAX = 1365;
const BUCKET_IDS_MIN = 8;
/** Ids that are flushed in one turn of the event loop. */
const TURN_IDS = 2 ** 13;

export class IdLoader {
  readonly #index: IdIndex;
  readonly #bucketIds: number;
  /** All buckets, one after the other. */
  readonly #entries: IdEntries;
  /** Where the next entry of each bucket goes. */
  readonly #ends: Uint32Array;
  #repeats: LinePosition[] = [];
  /** Whether an id was ever found in the index: a log with one repeat may be full of them. */
  hasRepeats = false;

  /** @param expected about how many ids will come: for few of them, small buckets are enough. */
  constructor(index: IdIndex, expected: number) {
    this.#index = index;
    const ids = Math.ceil(expected / TABLES);
    this.#bucketIds = Math.min(BUCKET_IDS_MAX, Math.max(BUCKET_IDS_MIN, ids));
    this.#entries = new IdEntries(TABLES * this.#bucketIds);
    this.#ends = Uint32Array.from({ length: TABLES }, (_, number) => number * this.#bucketIds);
  }

  /** Adds the id of a line. @throws RangeError, here or in `flush`, for an offset of 1 TiB or more. */
  add(id: bigint, offset: number, line: number): void {
    this.addWords(Number(BigInt.asIntN(32, id)), Number(id >> 32n), offset, line);
  }

  /** Like `add`, for an id given as two signed words: a bigint for each line costs a scan 50 ns. */
  addWords(low: number, high: number, offset: number, line: number): void {
    const number = this.#index.tableOf(low, high);
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
    for (const at of this.#index.addEntries(number, this.#entries, start, end)) {
      this.#repeats.push({ offset: this.#entries.offsetOf(at), line: this.#entries.lineOf(at) });
      this.hasRepeats = true;
    }
    this.#ends[number] = start;
  }
}
