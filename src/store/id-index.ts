/**
 * The index of a log in memory: int64 ids to byte offsets of their records.
 *
 * A hash table in pages, open addressing with linear probing. The home of an id is its hash as a
 * fraction of the table, so two tables of different sizes hold their ids in the same order, and
 * moving from one to the other is sequential.
 *
 * Invariants. However many ids there are, adding one moves no more than a run of slots and allocates
 * no more than 1 MiB: to grow, a second table is begun, a third larger, into which every further
 * `add` moves a few slots. Pages that were emptied are used again, so there are never two full
 * copies and growing leaves no garbage. Ids are only ever added. An id takes 16 to 22 bytes; a `Map`
 * takes about 100, and ends at 16,777,216.
 */
import { createCipheriv, randomBytes } from "node:crypto";
import type { LinePosition } from "../log/format.ts";

/**
 * The parts of a slot, 13 bytes side by side, so that a look costs one cache miss: the id as two
 * 32-bit halves, the lower one first, then the offset plus one as 40 bits. Zero there marks a free
 * slot. Words are read and written signed: V8 gives a number that is no signed 32-bit integer memory
 * of its own at each call that is not inlined.
 */
const SLOT_BYTES = 13;
const HIGH = 4;
const OFFSET = 8;
const OFFSET_TOP = 12;

const PAGE_BITS = 15;
const PAGE_SLOTS = 2 ** PAGE_BITS;
const PAGE_MASK = PAGE_SLOTS - 1;
const PAGE_BYTES = PAGE_SLOTS * SLOT_BYTES;
const CACHE_LINE_BYTES = 64;

/**
 * Slots after the last home, because probes do not wrap around. At a load of 0.8 a run of so many
 * used slots has a probability below 10^-40.
 */
const SLACK = 4096;
/** Beyond it, the probes for an id that is not there grow long (13 slots on average here). */
const LOAD_MAX = 0.8;
/** Less would save memory and move every id more often. */
const GROWTH = 4 / 3;
/**
 * Slots moved with every `add`. A table of `homes` slots is full again after
 * `homes * LOAD_MAX * (GROWTH - 1)` adds, so four would just empty the old one in time.
 */
const MOVES = 5;

/** The values of a word. */
const WORD = 2 ** 32;
/** The first offset that does not fit: one byte short of 1 TiB. */
export const OFFSET_LIMIT = 2 ** 40 - 1;

/** The bytes of a seed: a key of AES-256. */
export const SEED_BYTES = 32;

export class IdIndex {
  readonly #hash: IdHash;
  /** Empty pages, for the next table. */
  readonly #pool: DataView[] = [];
  #table: SlotTable;
  /** The table before it, while it is emptied: it holds the ids whose home there is `#moved` or later. */
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
    const homes = Math.max(PAGE_SLOTS - SLACK, Math.ceil(expected / LOAD_MAX));
    this.#table = new SlotTable(homes, this.#hash, this.#pool);
  }

  get size(): number {
    return this.#size;
  }

  /** How many slots ids are spread over. */
  get homes(): number {
    return this.#table.homes;
  }

  /** The hash of an id, given as two signed words. Nobody can choose it, because its seed is secret. */
  hashOf(low: number, high: number): number {
    return this.#hash.of(low, high);
  }

  /** Has the processor fetch the slots between two hashes, before ids are added there. */
  readAhead(first: number, last: number): void {
    this.#table.readAhead(first, last);
  }

  /** The byte offset of the record with this id, or `undefined`. */
  get(id: bigint): number | undefined {
    this.#id[0] = id;
    return this.getWords(this.#halves[0] as number, this.#halves[1] as number);
  }

  /** The same for an id given as two signed words. */
  getWords(low: number, high: number): number | undefined {
    const hash = this.#hash.of(low, high);
    const offset = this.#tableOf(hash).get(hash, low, high);
    return offset < 0 ? undefined : offset;
  }

  /**
   * Adds an id, unless it is there: then returns the offset it has, which stays.
   *
   * @throws RangeError for an offset of 1 TiB or more.
   */
  add(id: bigint, offset: number): number | undefined {
    this.#id[0] = id;
    return this.addWords(this.#halves[0] as number, this.#halves[1] as number, offset);
  }

  /** The same for an id given as two signed words. */
  addWords(low: number, high: number, offset: number): number | undefined {
    assertOffset(offset);
    return this.#addHashed(this.#hash.of(low, high), low, high, offset);
  }

  /**
   * The same for the entries (`writeEntry`) between two places in `words`. One call for many saves
   * a third of a scan.
   *
   * @returns the places of the entries whose ids were there.
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
    for (let at = start; at < end; at += ENTRY_WORDS) {
      const first = this.#addHashed(
        words[at + 2] as number,
        words[at] as number,
        words[at + 1] as number,
        positionOf(words, at).offset,
      );
      if (first !== undefined) present.push(at);
    }
    return present;
  }

  #addHashed(hash: number, low: number, high: number, offset: number): number | undefined {
    this.#makeRoom();
    const present = this.#tableOf(hash).add(hash, low, high, offset);
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

/** A hash table of a fixed size. */
class SlotTable {
  readonly homes: number;
  readonly #hash: IdHash;
  readonly #pool: DataView[];
  readonly #homesPerHash: number;
  /** A page in which nothing was looked for is not there. */
  readonly #pages: (DataView | undefined)[];
  /** The page that the last search ended in. */
  #page: DataView = new DataView(new ArrayBuffer(0));
  #lastRead = 0;

  constructor(homes: number, hash: IdHash, pool: DataView[]) {
    this.homes = homes;
    this.#hash = hash;
    this.#pool = pool;
    this.#homesPerHash = homes / WORD;
    this.#pages = new Array(Math.ceil((homes + SLACK) / PAGE_SLOTS)).fill(undefined);
  }

  /** The slot in which the search for an id with this hash begins. */
  homeOf(hash: number): number {
    return Math.floor((hash >>> 0) * this.#homesPerHash);
  }

  readAhead(first: number, last: number): void {
    const end = this.homeOf(last) + 1;
    for (let slot = this.homeOf(first); slot < end; slot = (slot | PAGE_MASK) + 1) {
      const page = this.#pages[slot >>> PAGE_BITS];
      if (page === undefined) continue;
      const stop = Math.min(PAGE_SLOTS, end - (slot - (slot & PAGE_MASK))) * SLOT_BYTES;
      for (let at = (slot & PAGE_MASK) * SLOT_BYTES; at < stop; at += CACHE_LINE_BYTES) {
        this.#lastRead ^= page.getUint8(at); // the compiler drops a read whose result is not kept
      }
    }
  }

  /** Returns the offset of an id, or -1. */
  get(hash: number, low: number, high: number): number {
    const at = this.#search(hash, low, high);
    return at < 0 ? offsetAt(this.#page, ~at) : -1;
  }

  /** Adds an id and returns -1, or returns the offset that it has. */
  add(hash: number, low: number, high: number, offset: number): number {
    const at = this.#search(hash, low, high);
    if (at < 0) return offsetAt(this.#page, ~at);
    const stored = offset + 1;
    put(this.#page, at, low, high, stored | 0, Math.floor(stored / WORD));
    return -1;
  }

  addEntries(words: Int32Array, start: number, end: number): number[] {
    const present: number[] = [];
    for (let from = start; from < end; from += ENTRY_WORDS) {
      const low = words[from] as number;
      const high = words[from + 1] as number;
      const at = this.#search(words[from + 2] as number, low, high);
      if (at < 0) present.push(from);
      else put(this.#page, at, low, high, words[from + 3] as number, offsetTopOf(words, from));
    }
    return present;
  }

  /** Returns the place in `#page` of the free slot for an id, or `~` of the place that it has. */
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
   * Moves the ids from a slot on into another table: at least `count` slots, and on to the next free
   * one, so that no run of slots is torn apart.
   *
   * @returns the first slot that was left; `homes` or more if none was.
   */
  moveTo(target: SlotTable, start: number, count: number): number {
    for (let slot = start; ; slot++) {
      const page = this.#pages[slot >>> PAGE_BITS];
      const at = (slot & PAGE_MASK) * SLOT_BYTES;
      const isRunEnd = page === undefined || isFree(page, at);
      if (!isRunEnd) {
        const low = page.getInt32(at, true);
        const high = page.getInt32(at + HIGH, true);
        const digits = page.getInt32(at + OFFSET, true);
        // An id is in one of the two tables alone, so this ends in a free slot.
        const free = target.#search(this.#hash.of(low, high), low, high);
        put(target.#page, free, low, high, digits, page.getUint8(at + OFFSET_TOP));
      }
      const isEnd = isRunEnd && slot + 1 >= this.homes;
      if (isEnd || (slot & PAGE_MASK) === PAGE_MASK) this.#release(slot >>> PAGE_BITS);
      if (isEnd || (isRunEnd && slot - start >= count)) return slot + 1;
    }
  }

  #pageOf(slot: number): DataView {
    const number = slot >>> PAGE_BITS;
    const present = this.#pages[number];
    if (present !== undefined) return present;
    const page = this.#pool.pop() ?? new DataView(new ArrayBuffer(PAGE_BYTES));
    this.#pages[number] = page;
    return page;
  }

  #release(number: number): void {
    const page = this.#pages[number];
    if (page === undefined) return;
    new Uint8Array(page.buffer).fill(0);
    this.#pool.push(page);
    this.#pages[number] = undefined;
  }
}

function isFree(page: DataView, at: number): boolean {
  return page.getUint32(at + OFFSET, true) === 0 && page.getUint8(at + OFFSET_TOP) === 0;
}

function offsetAt(page: DataView, at: number): number {
  return page.getUint8(at + OFFSET_TOP) * WORD + page.getUint32(at + OFFSET, true) - 1;
}

/** `digits` is the offset plus one below 2^32, as a signed word, and `top` the rest of it. */
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

/**
 * A hash of ids that nobody can choose collisions for.
 *
 * Tabulation hashing: each byte of the id picks a word of a table of random words, and the words are
 * combined with XOR. With linear probing it gives constant expected time for any set of ids that was
 * chosen without knowing the table (Patrascu and Thorup, "The Power of Simple Tabulation Hashing",
 * STOC '11). The table is made from a secret seed, and fits into the first cache.
 *
 * @internal
 */
export class IdHash {
  readonly #words = new Int32Array(8 * 256);

  /** @param seed `SEED_BYTES` random bytes; the same ones make the same hash. */
  constructor(seed: Uint8Array) {
    const words = this.#words;
    const cipher = createCipheriv("aes-256-ctr", seed, Buffer.alloc(16));
    const bytes = cipher.update(Buffer.alloc(words.byteLength));
    for (let word = 0; word < words.length; word++) words[word] = bytes.readInt32LE(word * 4);
  }

  /** The hash of an id given as two words: a signed word. */
  of(low: number, high: number): number {
    const words = this.#words;
    return (
      (words[low & 0xff] as number) ^
      (words[0x100 | ((low >>> 8) & 0xff)] as number) ^
      (words[0x200 | ((low >>> 16) & 0xff)] as number) ^
      (words[0x300 | (low >>> 24)] as number) ^
      (words[0x400 | (high & 0xff)] as number) ^
      (words[0x500 | ((high >>> 8) & 0xff)] as number) ^
      (words[0x600 | ((high >>> 16) & 0xff)] as number) ^
      (words[0x700 | (high >>> 24)] as number)
    );
  }
}

/**
 * An entry is an id on its way into an index, with the place of its line, as words of an
 * `Int32Array`: the low and the high half of the id, its hash, the offset plus one below 2^32, the
 * line below 2^32, and the rests of both, which are below 2^40.
 */
export const ENTRY_WORDS = 6;
const REST_BITS = 8;

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
  words[at + 1] = high;
  words[at + 2] = hash;
  words[at + 3] = stored;
  words[at + 4] = line;
  words[at + 5] = (Math.floor(stored / WORD) << REST_BITS) | Math.floor(line / WORD);
}

/** The place of the line of an entry. */
export function positionOf(words: Int32Array, at: number): LinePosition {
  const stored = offsetTopOf(words, at) * WORD + ((words[at + 3] as number) >>> 0);
  const lineTop = (words[at + 5] as number) % 2 ** REST_BITS;
  return { offset: stored - 1, line: lineTop * WORD + ((words[at + 4] as number) >>> 0) };
}

function offsetTopOf(words: Int32Array, at: number): number {
  return (words[at + 5] as number) >> REST_BITS;
}

function assertOffset(offset: number): void {
  if (offset >= OFFSET_LIMIT)
    throw new RangeError(`offset: expected less than ${OFFSET_LIMIT}, got ${offset}`);
}
