/**
 * The index of a log in memory: int64 ids to byte offsets of their records.
 *
 * The first bits of an id's hash choose one of 1,024 tables, the others its slot there (open addressing with
 * linear probing). A full table is copied into one half as large again, so adding an id copies about a thousandth
 * of the index at most. Ids are only ever added. An id takes 20 to 30 bytes outside the heap; a `Map` takes about
 * 100, and ends at 16,777,216. Knows no plants, and reads no log.
 */
import { clock } from "../clock.ts";

const TABLE_BITS = 10;
const TABLES = 2 ** TABLE_BITS;
/** A slot: the two halves of the id, and those of the offset plus one; 0 there marks a free slot. */
const SLOT_WORDS = 4;
const SLOTS_MIN = 8;
/** At this load the search for an id that is not there reads 13 slots on average. */
const LOAD_MAX = 0.8;
const GROWTH = 1.5;
/** An estimate may be wrong. */
const AHEAD_MAX = 8;
const WORD = 2 ** 32;

export class IdIndex {
  size = 0;
  readonly #hash = makeHash(clock.randomBytes(8));
  readonly #tables = Array.from({ length: TABLES }, () => new Table(this.#hash));
  // An id is split into halves through memory: 64-bit arithmetic costs ten times as much.
  readonly #id = new BigInt64Array(1);
  readonly #halves = new Int32Array(this.#id.buffer);

  /** The byte offset of the record with this id. */
  get(id: bigint): number | undefined {
    this.#id[0] = id;
    const low = this.#halves[0] as number;
    const high = this.#halves[1] as number;
    const hash = this.#hash(low, high);
    return (this.#tables[tableOf(hash)] as Table).get(hash, low, high);
  }

  /** Adds an id. If it is there already, its offset stays and is returned. */
  add(id: bigint, offset: number): number | undefined {
    this.#id[0] = id;
    return this.addWords(this.#halves[0] as number, this.#halves[1] as number, offset);
  }

  /** Like `add`, with the id as two signed words. */
  addWords(low: number, high: number, offset: number): number | undefined {
    const hash = this.#hash(low, high);
    const present = (this.#tables[tableOf(hash)] as Table).add(hash, low, high, offset);
    if (present === undefined) this.size++;
    return present;
  }

  /** @internal */
  tableOf(low: number, high: number): number {
    return tableOf(this.#hash(low, high));
  }

  /** Adds ids of one table, which are given as slots. Returns how many were there already. @internal */
  addSlots(table: number, slots: Int32Array, expected: number): number {
    const repeats = (this.#tables[table] as Table).addSlots(slots, expected);
    this.size += slots.length / SLOT_WORDS - repeats;
    return repeats;
  }
}

/** Ids that wait for their table; 22 MiB in all. A small log needs fewer. */
const BUCKET_IDS_MAX = 1365;
/** The shortest line has 19. */
const LINE_BYTES_MIN = 19;
/** Not every table gets the same number of ids. */
const MARGIN = 1.05;

/**
 * Adds the ids of a start. An index of many ids is larger than every cache, so adding each as it comes would cost
 * a miss or two. Here ids wait in a bucket for each table, and a full bucket is added at once: a start of ten million
 * plants takes 1.7 s of processor time instead of 4.5.
 */
export class IdLoader {
  /** How many ids were in the index already, after `flush`. */
  repeats = 0;
  readonly #index: IdIndex;
  readonly #logBytes: number;
  readonly #bucketIds: number;
  readonly #waiting: Int32Array;
  readonly #counts = new Int32Array(TABLES);
  #ids = 0;

  /** @param logBytes the length of the log, from which the number of ids is estimated. */
  constructor(index: IdIndex, logBytes: number) {
    this.#index = index;
    this.#logBytes = logBytes;
    const idsMax = Math.ceil(logBytes / LINE_BYTES_MIN / TABLES);
    this.#bucketIds = Math.min(BUCKET_IDS_MAX, Math.max(1, idsMax));
    this.#waiting = new Int32Array(TABLES * this.#bucketIds * SLOT_WORDS);
  }

  /** The id may be in the index only after `flush`. */
  addWords(low: number, high: number, offset: number): undefined {
    const table = this.#index.tableOf(low, high);
    const count = this.#counts[table] as number;
    putSlot(this.#waiting, (table * this.#bucketIds + count) * SLOT_WORDS, low, high, offset + 1);
    this.#counts[table] = count + 1;
    this.#ids++;
    if (count + 1 < this.#bucketIds) return;
    const expected = ((this.#ids / TABLES) * this.#logBytes * MARGIN) / offset;
    this.#empty(table, expected);
  }

  flush(): void {
    for (let table = 0; table < TABLES; table++) this.#empty(table, 0);
  }

  #empty(table: number, expected: number): void {
    const start = table * this.#bucketIds * SLOT_WORDS;
    const end = start + (this.#counts[table] as number) * SLOT_WORDS;
    this.repeats += this.#index.addSlots(table, this.#waiting.subarray(start, end), expected);
    this.#counts[table] = 0;
  }
}

function tableOf(hash: number): number {
  return hash >>> (32 - TABLE_BITS);
}

type IdHash = (low: number, high: number) => number;

/** A hash with a secret, so that nobody can choose ids that collide: the finalizer of MurmurHash3, twice. */
function makeHash(seeds: Buffer): IdHash {
  const seed = seeds.readInt32LE(0);
  const otherSeed = seeds.readInt32LE(4);
  return (low, high) => mix(mix(low ^ seed) ^ high ^ otherSeed);
}

function mix(word: number): number {
  let hash = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/** @param stored the offset plus one. */
function putSlot(words: Int32Array, at: number, low: number, high: number, stored: number): void {
  words[at] = low;
  words[at + 1] = high;
  words[at + 2] = stored | 0;
  words[at + 3] = Math.floor(stored / WORD);
}

/** One free slot, which stays free: a table gets memory with its first id. */
const NO_SLOTS = new Int32Array(SLOT_WORDS);

class Table {
  readonly #hash: IdHash;
  #words = NO_SLOTS;
  #slots = 1;
  #size = 0;
  #sizeMax = 0;

  constructor(hash: IdHash) {
    this.#hash = hash;
  }

  get(hash: number, low: number, high: number): number | undefined {
    const at = this.#search(hash, low, high);
    return this.#isFree(at) ? undefined : this.#offsetAt(at);
  }

  add(hash: number, low: number, high: number, offset: number): number | undefined {
    let at = this.#search(hash, low, high);
    if (!this.#isFree(at)) return this.#offsetAt(at);
    if (this.#size === this.#sizeMax) {
      this.#grow(GROWTH * this.#slots);
      at = this.#search(hash, low, high);
    }
    putSlot(this.#words, at, low, high, offset + 1);
    this.#size++;
    return undefined;
  }

  /** @param expected how many ids this table is likely to get in all. */
  addSlots(slots: Int32Array, expected: number): number {
    const sizeMin = this.#size + slots.length / SLOT_WORDS;
    if (sizeMin > this.#sizeMax) {
      const size = Math.max(sizeMin, Math.min(expected, AHEAD_MAX * sizeMin));
      this.#grow(size / LOAD_MAX);
    }
    let repeats = 0;
    for (let from = 0; from < slots.length; from += SLOT_WORDS) {
      if (!this.#copy(slots, from)) repeats++;
    }
    this.#size = sizeMin - repeats;
    return repeats;
  }

  /** Returns false if the id is there already. */
  #copy(from: Int32Array, at: number): boolean {
    const low = from[at] as number;
    const high = from[at + 1] as number;
    const to = this.#search(this.#hash(low, high), low, high);
    if (!this.#isFree(to)) return false;
    const words = this.#words;
    words[to] = low;
    words[to + 1] = high;
    words[to + 2] = from[at + 2] as number;
    words[to + 3] = from[at + 3] as number;
    return true;
  }

  /** Where the slot of an id begins, or the free one that it would take. */
  #search(hash: number, low: number, high: number): number {
    const words = this.#words;
    const rest = (hash << TABLE_BITS) >>> 0;
    for (let at = Math.floor((rest * this.#slots) / WORD) * SLOT_WORDS; ; ) {
      if (words[at] === low && words[at + 1] === high) return at; // or a free slot, if the id is 0
      if (this.#isFree(at)) return at;
      at += SLOT_WORDS;
      if (at === words.length) at = 0;
    }
  }

  #isFree(at: number): boolean {
    return this.#words[at + 2] === 0 && this.#words[at + 3] === 0;
  }

  #offsetAt(at: number): number {
    const words = this.#words;
    return (words[at + 3] as number) * WORD + ((words[at + 2] as number) >>> 0) - 1;
  }

  #grow(slots: number): void {
    const old = this.#words;
    const count = Math.ceil(Math.max(SLOTS_MIN, slots));
    this.#words = new Int32Array(count * SLOT_WORDS); // or there is no memory
    this.#slots = count;
    this.#sizeMax = Math.floor(count * LOAD_MAX);
    for (let at = 0; at < old.length; at += SLOT_WORDS) {
      if (old[at + 2] !== 0 || old[at + 3] !== 0) this.#copy(old, at);
    }
  }
}
