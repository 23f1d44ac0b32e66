/**
 * The index of a log in memory: int64 ids to byte offsets of their records.
 *
 * The first bits of an id's hash choose one of 1,024 tables, the others its place there: open
 * addressing with linear probing. A table that is full is copied into one a third larger. They begin
 * with different sizes, so they do not grow together. Ids are only ever added.
 *
 * A start adds ids in bulk, because an index of many is larger than every cache, so adding each as it comes
 * costs a miss or two. Ids wait in a bucket for each table, and a full bucket is added at once: its table is
 * in the second cache after the first few of them.
 *
 * Invariants. However many ids there are, adding one copies about a thousandth of them at most. From
 * some ten thousand ids on, one takes 19 bytes on average; a `Map` takes about 100, and ends at 16,777,216.
 * Equal ids are added in the order they came in, so the first keeps its offset. Knows no plants, and reads no log.
 */
import { clock, turn } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { LinePosition } from "../log/lines.ts";

/**
 * A slot is 13 bytes side by side, so that a look costs one cache miss: the id as two 32-bit halves,
 * the lower one first, then the offset plus one as 40 bits; zero there marks a free slot. Halves are
 * signed, because V8 allocates memory for larger numbers.
 */
const SLOT_BYTES = 13;
const HIGH = 4;
const OFFSET = 8;
const OFFSET_TOP = 12;

const TABLE_BITS = 10;
const TABLE_SHIFT = 32 - TABLE_BITS;
export const TABLES = 2 ** TABLE_BITS;
const SLOTS_MIN = 8;
/** All slots are read before so many ids that each has at most this number of slots. */
const AHEAD_SLOTS = 64;
const CACHE_LINE_BYTES = 64;
/** At this load the search for an id that is not there looks at 13 slots on average. */
const LOAD_MAX = 0.8;
/** Less would save memory and move every id more often. */
const GROWTH = 4 / 3;

const WORD = 2 ** 32;
/** The first offset that does not fit: one byte short of 1 TiB. */
const OFFSET_LIMIT = 2 ** 40 - 1;
/** Leaves room for creates in flight. */
const LOG_BYTES_MAX = OFFSET_LIMIT - 2 ** 32;
const PLANTS_MAX = 2 ** 31;

/** A random word for each value of each byte of an id: see `hashId`. */
const HASH_WORDS = 8 * 256;

function randomWords(): Int32Array {
  return new Int32Array(new Uint8Array(clock.randomBytes(4 * HASH_WORDS)).buffer);
}

export class IdIndex {
  /** How many ids there are. */
  size = 0;
  readonly #hashWords: Int32Array;
  readonly #tables: Table[];
  // An id is split into halves through memory: 64-bit arithmetic costs ten times as much.
  readonly #id = new BigInt64Array(1);
  readonly #halves = new Int32Array(this.#id.buffer);

  /**
   * @param expected how many ids are likely to come at once.
   * @param hashWords random words that an attacker cannot guess.
   */
  constructor(expected = 0, hashWords = randomWords()) {
    this.#hashWords = hashWords;
    const slots = Math.max(SLOTS_MIN, expected / TABLES / LOAD_MAX);
    const share = (number: number) => slots * GROWTH ** (number / TABLES);
    this.#tables = Array.from({ length: TABLES }, (_, at) => new Table(share(at), hashWords));
  }

  /** The table of an id, given as two signed words. */
  tableOf(low: number, high: number): number {
    return hashId(this.#hashWords, low, high) >>> TABLE_SHIFT;
  }

  /** The byte offset of the record with this id, or `undefined`. */
  get(id: bigint): number | undefined {
    this.#id[0] = id;
    return this.getWords(this.#halves[0] as number, this.#halves[1] as number);
  }

  /** Like `get`, for an id given as two signed words. */
  getWords(low: number, high: number): number | undefined {
    const hash = hashId(this.#hashWords, low, high);
    return (this.#tables[hash >>> TABLE_SHIFT] as Table).get(hash, low, high);
  }

  /**
   * Adds an id. If it is there already, its offset stays and is returned.
   *
   * @throws RangeError for an offset of `OFFSET_LIMIT` or more.
   */
  add(id: bigint, offset: number): number | undefined {
    this.#id[0] = id;
    const [low, high] = [this.#halves[0] as number, this.#halves[1] as number];
    const hash = hashId(this.#hashWords, low, high);
    const table = this.#tables[hash >>> TABLE_SHIFT] as Table;
    const present = table.add(hash, low, high, offset);
    if (present === undefined) this.size++;
    return present;
  }

  /**
   * Adds ids of one table as `add` does: one call for many saves a third of a scan.
   *
   * @returns the numbers of the entries whose ids were there already.
   */
  addEntries(table: number, entries: IdEntries, start: number, end: number): number[] {
    const present = (this.#tables[table] as Table).addEntries(entries, start, end);
    this.size += end - start - present.length;
    return present;
  }
}

/** One that is free for ever: a table has others from its first id on. */
const NO_SLOTS = new DataView(new ArrayBuffer(SLOT_BYTES));

/** A hash table of ids whose hashes begin alike. */
class Table {
  readonly #hashWords: Int32Array;
  #slots = NO_SLOTS;
  /** V8 calls a function for `byteLength` of a DataView (measured: half a percent of a create). */
  #slotCount = 1;
  #size = 0;
  #sizeMax = 0;
  #nextSlots: number;
  #lastRead = 0;

  /** @param slots how many are allocated first, when an id comes. */
  constructor(slots: number, hashWords: Int32Array) {
    this.#hashWords = hashWords;
    this.#nextSlots = Math.ceil(slots);
  }

  get(hash: number, low: number, high: number): number | undefined {
    const at = this.#search(hash, low, high);
    return at < 0 ? storedAt(this.#slots, ~at) - 1 : undefined;
  }

  /** Adds an id, or returns the offset that it has. */
  add(hash: number, low: number, high: number, offset: number): number | undefined {
    let at = this.#search(hash, low, high);
    if (at < 0) return storedAt(this.#slots, ~at) - 1;
    if (this.#size >= this.#sizeMax) {
      this.#grow();
      at = this.#search(hash, low, high);
    }
    put(this.#slots, at, low, high, offset + 1);
    this.#size++;
    return undefined;
  }

  addEntries(entries: IdEntries, start: number, end: number): number[] {
    const present: number[] = [];
    const ids = end - start;
    while (this.#size + ids > this.#sizeMax) this.#grow();
    if (ids * AHEAD_SLOTS > this.#slotCount) this.#readAhead();
    for (let number = start; number < end; number++) {
      const low = entries.lowOf(number);
      const high = entries.highOf(number);
      const at = this.#search(hashId(this.#hashWords, low, high), low, high);
      if (at < 0) present.push(number);
      else put(this.#slots, at, low, high, entries.offsetOf(number) + 1);
    }
    this.#size += ids - present.length;
    return present;
  }

  /** Has the processor fetch all slots, one after the other. */
  #readAhead(): void {
    const slots = this.#slots;
    const end = this.#slotCount * SLOT_BYTES;
    for (let at = 0; at < end; at += CACHE_LINE_BYTES) {
      this.#lastRead ^= slots.getUint8(at); // the compiler drops a read whose result is not kept
    }
  }

  /** Returns the place of the free slot for an id, or `~` of the place that it has. */
  #search(hash: number, low: number, high: number): number {
    const slots = this.#slots;
    const end = this.#slotCount * SLOT_BYTES;
    const rest = (hash << TABLE_BITS) >>> 0;
    for (let at = Math.floor((rest * this.#slotCount) / WORD) * SLOT_BYTES; ; ) {
      const found = slots.getInt32(at, true);
      if (found === 0 && storedAt(slots, at) === 0) return at;
      if (found === low && slots.getInt32(at + HIGH, true) === high) return ~at;
      at += SLOT_BYTES;
      if (at === end) at = 0;
    }
  }

  #grow(): void {
    const old = this.#slots;
    const oldBytes = old.byteLength;
    const slots = this.#nextSlots;
    this.#slots = new DataView(new ArrayBuffer(slots * SLOT_BYTES)); // or there is no memory
    this.#nextSlots = Math.ceil(slots * GROWTH);
    this.#slotCount = slots;
    this.#sizeMax = Math.floor(slots * LOAD_MAX);
    for (let at = 0; at < oldBytes; at += SLOT_BYTES) {
      const stored = storedAt(old, at);
      if (stored === 0) continue;
      const [low, high] = [old.getInt32(at, true), old.getInt32(at + HIGH, true)];
      const hash = hashId(this.#hashWords, low, high);
      put(this.#slots, this.#search(hash, low, high), low, high, stored);
    }
  }
}

/** The offset plus one in the slot at a place; 0: the slot is free. */
function storedAt(slots: DataView, at: number): number {
  return slots.getUint8(at + OFFSET_TOP) * WORD + slots.getUint32(at + OFFSET, true);
}

function put(slots: DataView, at: number, low: number, high: number, stored: number): void {
  if (stored > OFFSET_LIMIT) {
    throw new RangeError(`offset: expected less than ${OFFSET_LIMIT}, got ${stored - 1}`);
  }
  slots.setInt32(at, low, true);
  slots.setInt32(at + HIGH, high, true);
  slots.setInt32(at + OFFSET, stored | 0, true);
  slots.setUint8(at + OFFSET_TOP, Math.floor(stored / WORD));
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

/** @throws PlantStoreError `not_stored` if a log so long, with so many plants, has no room for another. */
export function assertRoom(logBytes: number, plants: number): void {
  if (logBytes < LOG_BYTES_MAX && plants < PLANTS_MAX) return;
  throw new PlantStoreError(
    "not_stored",
    "Cannot store it: the log is full (it has reached its greatest length or number of plants); " +
      "nothing was stored, and no retry will succeed",
  );
}

/** Ids on their way into an index, with the places of their lines: 24 bytes side by side for each. */
class IdEntries {
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

/** 32 MiB in all. */
const BUCKET_IDS_MAX = 1365;
const BUCKET_IDS_MIN = 8;
/** Ids that are flushed in one turn of the event loop. */
const TURN_IDS = 2 ** 13;

/** Adds ids in bulk. Before `flush` an id may be in the index or not: a full bucket does not wait. */
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
