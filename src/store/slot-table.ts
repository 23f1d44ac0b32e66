/**
 * A hash table of a fixed size, ids to byte offsets, in pages.
 *
 * Open addressing with linear probing. The home of an id is its hash as a
 * fraction of the table, so two tables of different sizes hold their entries
 * in the same order, and moving from one to the other is sequential. A slot is
 * 13 bytes side by side, so that a look costs one cache miss: the id as two
 * 32-bit halves, then the offset plus one as 40 bits; zero there marks a free
 * slot. Entries are only ever added. When to move to another table is not
 * known here (see store/id-index).
 */
import { DIGITS, HIGH as ENTRY_HIGH, ENTRY_WORDS, HASH, topOf } from "./id-entry.ts";
import type { IdHash } from "./id-hash.ts";

const SLOT_BYTES = 13;
/** Where in a slot the parts stand. */
const HIGH = 4;
const OFFSET = 8;
const OFFSET_TOP = 12;

const CACHE_LINE_BYTES = 64;

const PAGE_BITS = 15;
/** Slots in a page. */
export const PAGE_SLOTS = 2 ** PAGE_BITS;
const PAGE_MASK = PAGE_SLOTS - 1;
/** Two are below 1 MiB: no more is ever allocated at once. */
const PAGE_BYTES = PAGE_SLOTS * SLOT_BYTES;

/**
 * Slots behind the last home, because probes do not wrap around. At a load of
 * 0.8 a run of so many used slots has a probability below 10^-40.
 */
export const SLACK = 4096;

/** The page of the last search before there was one. */
const NO_PAGE = new DataView(new ArrayBuffer(0));

/** Pages of tables that were emptied, for the next ones: growing leaves no garbage. */
export class PagePool {
  readonly #pages: DataView[] = [];

  take(): DataView {
    return this.#pages.pop() ?? new DataView(new ArrayBuffer(PAGE_BYTES));
  }

  give(page: DataView): void {
    new Uint8Array(page.buffer).fill(0);
    this.#pages.push(page);
  }
}

export class SlotTable {
  /** How many homes there are. */
  readonly homes: number;
  readonly #hash: IdHash;
  readonly #pool: PagePool;
  readonly #homesPerHash: number;
  /** A page that holds nothing yet is not there. */
  readonly #pages: (DataView | undefined)[];
  #lastRead = 0;
  /** The page that the last search ended in. */
  #page: DataView = NO_PAGE;

  constructor(homes: number, hash: IdHash, pool: PagePool) {
    this.homes = homes;
    this.#hash = hash;
    this.#pool = pool;
    this.#homesPerHash = homes / 2 ** 32;
    this.#pages = new Array(Math.ceil((homes + SLACK) / PAGE_SLOTS)).fill(undefined);
  }

  /** The slot in which the search for an id with this hash begins. */
  homeOf(hash: number): number {
    return Math.floor((hash >>> 0) * this.#homesPerHash);
  }

  /** Has the processor fetch what stands between the homes of two hashes, in the order of memory. */
  readAhead(first: number, last: number): void {
    const end = this.homeOf(last) + 1;
    for (let slot = this.homeOf(first); slot < end; slot = (slot | PAGE_MASK) + 1) {
      const page = this.#pages[slot >>> PAGE_BITS];
      if (page === undefined) continue;
      const stop = Math.min(PAGE_SLOTS, end - (slot - (slot & PAGE_MASK))) * SLOT_BYTES;
      for (let at = (slot & PAGE_MASK) * SLOT_BYTES; at < stop; at += CACHE_LINE_BYTES) {
        // What nobody keeps, the compiler would not read.
        this.#lastRead ^= page.getUint8(at);
      }
    }
  }

  /** The offset of an id, or -1. */
  get(hash: number, low: number, high: number): number {
    for (let slot = this.homeOf(hash); ; slot++) {
      const page = this.#pages[slot >>> PAGE_BITS];
      if (page === undefined) return -1;
      const at = (slot & PAGE_MASK) * SLOT_BYTES;
      if (isFree(page, at)) return -1;
      if (page.getInt32(at, true) === low && page.getInt32(at + HIGH, true) === high) {
        return offsetAt(page, at);
      }
    }
  }

  /**
   * Adds an id, unless it is there: then the offset it has is returned, else -1.
   *
   * One pass for looking and adding, and one read a slot, take a third less
   * time than `get` and an `add` behind it (180 instead of 260 ns at 10 M ids).
   */
  addUnlessThere(hash: number, low: number, high: number, offset: number): number {
    const at = this.#search(hash, low, high);
    if (at < 0) return offsetAt(this.#page, ~at);
    const stored = offset + 1;
    put(this.#page, at, low, high, stored | 0, Math.floor(stored / 2 ** 32));
    return -1;
  }

  /**
   * The same for entries (store/id-entry) from one place in `words` up to another: in one call, a
   * scan takes a tenth less time.
   *
   * @returns where the entries stand whose ids were there.
   */
  addEntries(words: Int32Array, start: number, end: number): number[] {
    const present: number[] = [];
    for (let from = start; from < end; from += ENTRY_WORDS) {
      const low = words[from] as number;
      const high = words[from + ENTRY_HIGH] as number;
      const at = this.#search(words[from + HASH] as number, low, high);
      if (at < 0) present.push(from);
      else put(this.#page, at, low, high, words[from + DIGITS] as number, topOf(words, from));
    }
    return present;
  }

  /** Where in `#page` the slot is that an id belongs into; `~` of where it stands already. */
  #search(hash: number, low: number, high: number): number {
    for (let slot = this.homeOf(hash); ; slot = (slot | PAGE_MASK) + 1) {
      const page = this.#pageOf(slot);
      this.#page = page;
      for (let at = (slot & PAGE_MASK) * SLOT_BYTES; at < PAGE_BYTES; at += SLOT_BYTES) {
        const found = page.getInt32(at, true);
        if (found === 0 && isFree(page, at)) return at;
        if (found === low && page.getInt32(at + HIGH, true) === high) return ~at;
      }
    }
  }

  /**
   * Moves what stands from a slot on into another table: at least `count` slots,
   * and on to the next free one, so that no run of slots is torn apart.
   *
   * @returns the first slot that was left; `homes` or more when nothing was.
   */
  moveTo(target: SlotTable, start: number, count: number): number {
    for (let slot = start; ; slot++) {
      const index = slot >>> PAGE_BITS;
      const page = this.#pages[index];
      const at = (slot & PAGE_MASK) * SLOT_BYTES;
      const isRunEnd = page === undefined || isFree(page, at);
      if (!isRunEnd) {
        const low = page.getInt32(at, true);
        const high = page.getInt32(at + HIGH, true);
        const digits = page.getInt32(at + OFFSET, true);
        // An id stands in one of the two tables alone, so this ends in a free slot.
        const free = target.#search(this.#hash.of(low, high), low, high);
        put(target.#page, free, low, high, digits, page.getUint8(at + OFFSET_TOP));
      }
      const isEnd = isRunEnd && slot + 1 >= this.homes;
      if (isEnd || (slot & PAGE_MASK) === PAGE_MASK) this.#release(index);
      if (isEnd || (isRunEnd && slot - start >= count)) return slot + 1;
    }
  }

  /** The page that a slot is in, made if nothing was in it so far. */
  #pageOf(slot: number): DataView {
    const index = slot >>> PAGE_BITS;
    const present = this.#pages[index];
    if (present !== undefined) return present;
    const page = this.#pool.take();
    this.#pages[index] = page;
    return page;
  }

  #release(index: number): void {
    const page = this.#pages[index];
    if (page !== undefined) this.#pool.give(page);
    this.#pages[index] = undefined;
  }
}

function isFree(page: DataView, at: number): boolean {
  return page.getUint32(at + OFFSET, true) === 0 && page.getUint8(at + OFFSET_TOP) === 0;
}

function offsetAt(page: DataView, at: number): number {
  return page.getUint8(at + OFFSET_TOP) * 2 ** 32 + page.getUint32(at + OFFSET, true) - 1;
}

/** `digits` is the offset plus one below 2^32, as a signed word, and `top` what is above. */
function put(
  page: DataView,
  at: number,
  low: number,
  high: number,
  digits: number,
  top: number,
): void {
  page.setInt32(at, low, true);
  page.setInt32(at + HIGH, high, true);
  page.setInt32(at + OFFSET, digits, true);
  page.setUint8(at + OFFSET_TOP, top);
}
