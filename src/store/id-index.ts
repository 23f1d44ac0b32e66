/**
 * The index of a log in memory: int64 ids to byte offsets of their records.
 *
 * A hash table in pages, open addressing with linear probing. The home of an id is its hash as a
 * fraction of the table, so two tables of different sizes hold their ids in the same order, and
 * moving from one to the other is sequential.
 *
 * Invariants. However many ids there are, adding one moves no more than a run of slots and allocates
 * no more than 1 MiB: to grow, the index begins a second table, a third larger, into which every
 * further `add` moves a few slots. Emptied pages are used again, so there are never two full copies
 * and growing leaves no garbage. Ids are only ever added. An id takes 16 to 22 bytes; a `Map` takes
 * about 100, and ends at 16,777,216.
 */
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";

/**
 * A slot is 13 bytes side by side, so that a look costs one cache miss: the id as two 32-bit halves,
 * the lower one first, then the offset plus one as 40 bits; zero there marks a free slot. Halves are
 * signed, because V8 allocates memory for larger numbers.
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
/** At this load the search for an id that is not there looks at 13 slots on average. */
const LOAD_MAX = 0.8;
/** Less would save memory and move every id more often. */
const GROWTH = 4 / 3;
/**
 * Slots moved with every `add`. A table of `homes` slots is full again after
 * `homes * LOAD_MAX * (GROWTH - 1)` adds, so four would just empty the old one in time.
 */
const MOVES = 5;

const WORD = 2 ** 32;
/** The first offset that does not fit: one byte short of 1 TiB. */
export const OFFSET_LIMIT = 2 ** 40 - 1;
/** Leaves room for creates in flight. */
const LOG_BYTES_MAX = OFFSET_LIMIT - 2 ** 32;
const PLANTS_MAX = 2 ** 31;

/** A random word for each value of each byte of an id: see `hashId`. */
const HASH_WORDS = 8 * 256;

function randomWords(): Int32Array {
  return new Int32Array(new Uint8Array(clock.randomBytes(4 * HASH_WORDS)).buffer);
}

export class IdIndex {
  readonly #hashWords: Int32Array;
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
   * @param hashWords random words that an attacker cannot guess.
   */
  constructor(expected = 0, hashWords = randomWords()) {
    this.#hashWords = hashWords;
    const homes = Math.max(PAGE_SLOTS - SLACK, Math.ceil(expected / LOAD_MAX));
    this.#table = new SlotTable(homes, hashWords, this.#pool);
  }

  get size(): number {
    return this.#size;
  }

  /** @throws PlantStoreError `not_stored` if there is no room for another plant, in a log so long. */
  assertRoom(logBytes: number): void {
    checkRoom(logBytes, this.size);
  }

  /** How many slots ids are spread over. */
  get homes(): number {
    return this.#table.homes;
  }

  /** The hash of an id, given as two signed words. */
  hashOf(low: number, high: number): number {
    return hashId(this.#hashWords, low, high);
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

  /** Like `get`, for an id given as two signed words. */
  getWords(low: number, high: number): number | undefined {
    const hash = this.hashOf(low, high);
    return this.#tableOf(hash).get(hash, low, high);
  }

  /**
   * Adds an id. If it is there already, its offset stays and is returned.
   *
   * @throws RangeError for an offset of `OFFSET_LIMIT` or more.
   */
  add(id: bigint, offset: number): number | undefined {
    this.#id[0] = id;
    return this.addWords(this.#halves[0] as number, this.#halves[1] as number, offset);
  }

  /** Like `add`, for an id given as two signed words. */
  addWords(low: number, high: number, offset: number): number | undefined {
    this.#makeRoom();
    const hash = this.hashOf(low, high);
    const present = this.#tableOf(hash).add(hash, low, high, offset);
    if (present === undefined) this.#size++;
    return present;
  }

  /**
   * Adds ids as `addWords` does: one call for many saves a third of a scan.
   *
   * @returns the numbers of the entries whose ids were there already.
   */
  addEntries(entries: IdEntries, start: number, end: number): number[] {
    const size = this.#size + end - start;
    if (this.#old === undefined && size <= this.#table.homes * LOAD_MAX) {
      const present = this.#table.addEntries(entries, start, end);
      this.#size = size - present.length;
      return present;
    }
    // Slots may have to be moved on the way.
    const present: number[] = [];
    for (let at = start; at < end; at++) {
      const first = this.addWords(entries.lowOf(at), entries.highOf(at), entries.offsetOf(at));
      if (first !== undefined) present.push(at);
    }
    return present;
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
      this.#table = new SlotTable(Math.ceil(this.#old.homes * GROWTH), this.#hashWords, this.#pool);
    }
  }
}

/** A hash table of a fixed size. */
class SlotTable {
  readonly homes: number;
  readonly #hashWords: Int32Array;
  readonly #pool: DataView[];
  readonly #homesPerHash: number;
  /** A page that no search has come to is missing. */
  readonly #pages: (DataView | undefined)[];
  /** The page in which the last search ended. */
  #page: DataView = new DataView(new ArrayBuffer(0));
  #lastRead = 0;

  constructor(homes: number, hashWords: Int32Array, pool: DataView[]) {
    this.homes = homes;
    this.#hashWords = hashWords;
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

  get(hash: number, low: number, high: number): number | undefined {
    const at = this.#search(hash, low, high);
    return at < 0 ? storedAt(this.#page, ~at) - 1 : undefined;
  }

  /** Adds an id, or returns the offset that it has. */
  add(hash: number, low: number, high: number, offset: number): number | undefined {
    const at = this.#search(hash, low, high);
    if (at < 0) return storedAt(this.#page, ~at) - 1;
    put(this.#page, at, low, high, offset + 1);
    return undefined;
  }

  addEntries(entries: IdEntries, start: number, end: number): number[] {
    const present: number[] = [];
    for (let number = start; number < end; number++) {
      const low = entries.lowOf(number);
      const high = entries.highOf(number);
      const at = this.#search(hashId(this.#hashWords, low, high), low, high);
      if (at < 0) present.push(number);
      else put(this.#page, at, low, high, entries.offsetOf(number) + 1);
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
        if (found === 0 && storedAt(page, at) === 0) return at;
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
      const stored = page === undefined ? 0 : storedAt(page, at);
      if (page !== undefined && stored !== 0) {
        const low = page.getInt32(at, true);
        const high = page.getInt32(at + HIGH, true);
        // An id is in one of the two tables alone.
        target.add(hashId(this.#hashWords, low, high), low, high, stored - 1);
      }
      const isEnd = stored === 0 && slot + 1 >= this.homes;
      if (isEnd || (slot & PAGE_MASK) === PAGE_MASK) this.#release(slot >>> PAGE_BITS);
      if (isEnd || (stored === 0 && slot - start >= count)) return slot + 1;
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

/** The offset plus one in the slot at a place; 0: the slot is free. */
function storedAt(page: DataView, at: number): number {
  return page.getUint8(at + OFFSET_TOP) * WORD + page.getUint32(at + OFFSET, true);
}

function put(page: DataView, at: number, low: number, high: number, stored: number): void {
  if (stored > OFFSET_LIMIT) {
    throw new RangeError(`offset: expected less than ${OFFSET_LIMIT}, got ${stored - 1}`);
  }
  page.setInt32(at, low, true);
  page.setInt32(at + HIGH, high, true);
  page.setInt32(at + OFFSET, stored | 0, true);
  page.setUint8(at + OFFSET_TOP, Math.floor(stored / WORD));
}

/**
 * A hash of ids, given as two signed words, that nobody can choose collisions for; a signed word.
 *
 * Tabulation hashing: each byte of the id picks one of 256 random words, and the eight words are
 * combined with XOR. With linear probing it gives constant expected time for any set of ids that was
 * chosen without knowing the words (Patrascu and Thorup, "The Power of Simple Tabulation Hashing",
 * STOC '11). They fit into the first cache.
 *
 * @internal
 */
export function hashId(words: Int32Array, low: number, high: number): number {
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

/** Ids on their way into an index, with the places of their lines: 24 bytes side by side for each. */
export class IdEntries {
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;

  constructor(count: number) {
    this.#numbers = new Float64Array(3 * count);
    this.#words = new Int32Array(this.#numbers.buffer);
  }

  set(at: number, low: number, high: number, offset: number, line: number): void {
    this.#words[6 * at] = low;
    this.#words[6 * at + 1] = high;
    this.#numbers[3 * at + 1] = offset;
    this.#numbers[3 * at + 2] = line;
  }

  lowOf(at: number): number {
    return this.#words[6 * at] as number;
  }

  highOf(at: number): number {
    return this.#words[6 * at + 1] as number;
  }

  offsetOf(at: number): number {
    return this.#numbers[3 * at + 1] as number;
  }

  lineOf(at: number): number {
    return this.#numbers[3 * at + 2] as number;
  }
}

/** See `assertRoom`. @internal */
export function checkRoom(logBytes: number, plants: number): void {
  if (logBytes < LOG_BYTES_MAX && plants < PLANTS_MAX) return;
  throw new PlantStoreError(
    "not_stored",
    "Cannot store it: the log is full (it has reached its greatest length or number of plants); " +
      "nothing was stored, and no retry will succeed",
  );
}
