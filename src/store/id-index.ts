/**
 * int64 -> byte offset of its record.
 *
 * Invariants. However many ids there are, adding one moves no more than a run of
 * slots and allocates no more than 1 MiB: growing means a second table, a third
 * larger, into which every further `add` moves a few slots; pages that were
 * emptied are used again, so there are never two full copies. On the way to 50
 * million a thousand adds may take 10 ms twice: V8 collects garbage then
 * (`npm run bench:scale`). A `Map` would end at 16,777,216 entries and cost about
 * 100 bytes each; this costs 16 to 22. Entries are only ever added.
 */
import { randomBytes } from "node:crypto";
import { assertOffset, ENTRY_WORDS, HASH, HIGH, positionOf } from "./id-entry.ts";
import { IdHash, SEED_BYTES } from "./id-hash.ts";
import { PAGE_SLOTS, PagePool, SLACK, SlotTable } from "./slot-table.ts";

export { OFFSET_LIMIT } from "./id-entry.ts";

/** Beyond it, the probes for an id that is not there grow long (13 slots on average here). */
const LOAD_MAX = 0.8;
/**
 * What a full table grows by: after it, three slots in five are used, 21.7 bytes an
 * id. Less would save memory and move every entry more often.
 */
const GROWTH = 4 / 3;
/** With its slack, one page. */
const HOMES_MIN = PAGE_SLOTS - SLACK;
/**
 * Slots moved with every `add`. A table of `homes` slots is full again after
 * `homes * LOAD_MAX * (GROWTH - 1)` of them, so four would just empty the old one in time.
 */
const MOVES = 5;

export class IdIndex {
  readonly #hash: IdHash;
  readonly #pool = new PagePool();
  #table: SlotTable;
  /** The table before it, while it is being emptied: ids whose home there is behind `#moved`. */
  #old: SlotTable | undefined;
  #moved = 0;
  #size = 0;
  // An id is split into halves through memory: 64-bit arithmetic costs ten times as much.
  readonly #id = new BigInt64Array(1);
  readonly #halves = new Int32Array(this.#id.buffer);

  /**
   * @param expected how many ids are likely to come at once.
   * @param seed `SEED_BYTES` bytes that an attacker cannot guess.
   */
  constructor(expected = 0, seed: Uint8Array = randomBytes(SEED_BYTES)) {
    this.#hash = new IdHash(seed);
    this.#table = new SlotTable(homesFor(expected), this.#hash, this.#pool);
  }

  get size(): number {
    return this.#size;
  }

  /** How many slots ids are spread over. */
  get homes(): number {
    return this.#table.homes;
  }

  /** The hash of an id, which nobody can choose: its seed is secret. */
  hashOfId(id: bigint): number {
    this.#id[0] = id;
    return this.#hash.of(this.#halves[0] as number, this.#halves[1] as number);
  }

  /** The same for an id given as two signed 32-bit halves. */
  hashOf(low: number, high: number): number {
    return this.#hash.of(low, high);
  }

  /** Reads what stands between the homes of two hashes, so that it is near when ids are added. */
  readAhead(first: number, last: number): void {
    this.#table.readAhead(first, last);
  }

  /** The byte offset of the record with this id, or `undefined`. */
  get(id: bigint): number | undefined {
    this.#id[0] = id;
    return this.getWords(this.#halves[0] as number, this.#halves[1] as number);
  }

  /** The same for an id given as two signed 32-bit halves. */
  getWords(low: number, high: number): number | undefined {
    const hash = this.#hash.of(low, high);
    const offset = this.#tableOf(hash).get(hash, low, high);
    return offset < 0 ? undefined : offset;
  }

  /**
   * Adds an id, unless it is there: then the offset it has, which stays, is returned.
   *
   * @throws RangeError for an offset of 1 TiB or more.
   */
  add(id: bigint, offset: number): number | undefined {
    this.#id[0] = id;
    return this.addWords(this.#halves[0] as number, this.#halves[1] as number, offset);
  }

  /** The same for an id given as two signed 32-bit halves. */
  addWords(low: number, high: number, offset: number): number | undefined {
    assertOffset(offset);
    return this.#addHashed(this.#hash.of(low, high), low, high, offset);
  }

  /**
   * The same for entries (store/id-entry) from one place in `words` up to another.
   *
   * @returns where the entries stand whose ids were there.
   */
  addEntries(words: Int32Array, start: number, end: number): number[] {
    const size = this.#size + (end - start) / ENTRY_WORDS;
    if (this.#old === undefined && size <= this.#table.homes * LOAD_MAX) {
      const present = this.#table.addEntries(words, start, end);
      this.#size = size - present.length;
      return present;
    }
    // Something may have to be moved on the way.
    const present: number[] = [];
    for (let from = start; from < end; from += ENTRY_WORDS) {
      const hash = words[from + HASH] as number;
      const { offset } = positionOf(words, from);
      const first = this.#addHashed(
        hash,
        words[from] as number,
        words[from + HIGH] as number,
        offset,
      );
      if (first !== undefined) present.push(from);
    }
    return present;
  }

  #addHashed(hash: number, low: number, high: number, offset: number): number | undefined {
    this.#makeRoom();
    const present = this.#tableOf(hash).addUnlessThere(hash, low, high, offset);
    if (present >= 0) return present;
    this.#size++;
    return undefined;
  }

  #tableOf(hash: number): SlotTable {
    const old = this.#old;
    return old !== undefined && old.homeOf(hash) >= this.#moved ? old : this.#table;
  }

  #makeRoom(): void {
    if (this.#old !== undefined) {
      this.#moved = this.#old.moveTo(this.#table, this.#moved, MOVES);
      if (this.#moved >= this.#old.homes) this.#old = undefined;
    } else if (this.#size >= this.#table.homes * LOAD_MAX) {
      this.#old = this.#table;
      this.#moved = 0;
      this.#table = new SlotTable(Math.ceil(this.#old.homes * GROWTH), this.#hash, this.#pool);
    }
  }
}

function homesFor(ids: number): number {
  return Math.max(HOMES_MIN, Math.ceil(ids / LOAD_MAX));
}
