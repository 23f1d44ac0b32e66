/**
 * The index of a log in memory: int64 ids to byte offsets of their records.
 *
 * The first bits of an id's hash choose one of 1,024 tables, the others its slot there (open addressing with
 * linear probing). A full table is copied into one half as large again, so adding an id copies about a thousandth
 * of the index at most. An id takes 20 to 30 bytes outside the heap; a `Map` takes about 100, and ends at 16,777,216.
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
const WORD = 2 ** 32;
/** Shared by all empty tables: one free slot, never written. */
const NO_SLOTS = new Int32Array(SLOT_WORDS);

export class IdIndex {
  size = 0;
  readonly #seed = clock.randomBytes(4).readInt32LE();
  readonly #otherSeed = clock.randomBytes(4).readInt32LE();
  readonly #tables: Int32Array[] = Array.from({ length: TABLES }, () => NO_SLOTS);
  /** How many ids each table has. */
  readonly #counts = new Int32Array(TABLES);

  /** The byte offset of the record with this id. */
  get(id: bigint): number | undefined {
    const [low, high] = wordsOf(id);
    const hash = this.#hash(low, high);
    const table = this.#tables[hash >>> (32 - TABLE_BITS)] as Int32Array;
    const offset = offsetAt(table, findSlot(table, hash, low, high));
    return offset < 0 ? undefined : offset;
  }

  /** Adds an id. If it is there already, its offset stays and is returned. */
  add(id: bigint, offset: number): number | undefined {
    const [low, high] = wordsOf(id);
    return this.addWords(low, high, offset);
  }

  /** Like `add`, with the id as two signed words. */
  addWords(low: number, high: number, offset: number): number | undefined {
    const hash = this.#hash(low, high);
    const which = hash >>> (32 - TABLE_BITS);
    let table = this.#tables[which] as Int32Array;
    let slot = findSlot(table, hash, low, high);
    const present = offsetAt(table, slot);
    if (present >= 0) return present;
    const count = this.#counts[which] as number;
    if (count >= Math.floor((LOAD_MAX * table.length) / SLOT_WORDS)) {
      table = this.reserve(which, GROWTH * (count + 1));
      slot = findSlot(table, hash, low, high);
    }
    putSlot(table, slot, low, high, offset);
    this.#counts[which] = count + 1;
    this.size++;
    return undefined;
  }

  /** Makes room for so many ids in a table. @internal */
  reserve(which: number, ids: number): Int32Array {
    const old = this.#tables[which] as Int32Array;
    const slots = Math.ceil(Math.max(SLOTS_MIN, ids / LOAD_MAX));
    if (slots * SLOT_WORDS <= old.length) return old;
    const table = new Int32Array(slots * SLOT_WORDS); // or there is no memory
    for (let at = 0; at < old.length; at += SLOT_WORDS) {
      const offset = offsetAt(old, at);
      if (offset < 0) continue;
      const [low, high] = [old[at] as number, old[at + 1] as number];
      putSlot(table, findSlot(table, this.#hash(low, high), low, high), low, high, offset);
    }
    this.#tables[which] = table;
    return table;
  }

  /** With a secret, so that nobody can choose many ids that collide: the finalizer of MurmurHash3, twice. */
  #hash(low: number, high: number): number {
    return mix(mix(low ^ this.#seed) ^ high ^ this.#otherSeed);
  }

  /** The number of an id's table. @internal */
  tableOf(low: number, high: number): number {
    return this.#hash(low, high) >>> (32 - TABLE_BITS);
  }
}

/** Ids that wait for their table: 21 MiB in all, or fewer for a small log. */
const BUCKET_IDS_MAX = 1365;
/** The shortest line has 19. */
const LINE_BYTES_MIN = 19;
/** Room for more, or all tables would be copied soon after a start: 4 % of each create (measured). */
const MARGIN = 1.15;
const AHEAD_MAX = 4; // or lines that grow longer would leave most of a table empty
const CACHE_LINE_WORDS = 16;

/**
 * Adds the ids of a start. An index of many ids is larger than every cache, so adding each as it comes would cost
 * a miss or two. Here ids wait in a bucket for each table, and a full bucket is added at once, to a table of about
 * its final size, which is read before: ten million ids take 0.6 s of processor time instead of 2.8.
 */
export class IdLoader {
  readonly #index: IdIndex;
  readonly #logBytes: number;
  readonly #bucketWords: number;
  readonly #waiting: Int32Array;
  /** How many words of each bucket are taken. */
  readonly #taken = new Int32Array(TABLES);
  #ids = 0;
  #read = 0; // the compiler drops a read whose result is not kept

  /** @param logBytes the length of the log, from which the number of ids is estimated. */
  constructor(index: IdIndex, logBytes: number) {
    this.#index = index;
    this.#logBytes = logBytes;
    const idsMax = Math.ceil(logBytes / LINE_BYTES_MIN / TABLES);
    this.#bucketWords = Math.min(BUCKET_IDS_MAX, idsMax + 1) * SLOT_WORDS;
    this.#waiting = new Int32Array(TABLES * this.#bucketWords);
  }

  /** The id is in the index after `flush`. A repeated id is dropped, and nothing says so. */
  addWords(low: number, high: number, offset: number): undefined {
    const table = this.#index.tableOf(low, high);
    const taken = this.#taken[table] as number;
    putSlot(this.#waiting, table * this.#bucketWords + taken, low, high, offset);
    this.#taken[table] = taken + SLOT_WORDS;
    this.#ids++;
    if (taken + SLOT_WORDS < this.#bucketWords) return;
    this.#empty(table, Math.min(this.#logBytes / offset, AHEAD_MAX));
  }

  flush(): void {
    for (let table = 0; table < TABLES; table++) this.#empty(table, 1);
  }

  /** @param ahead the length of the log, divided by what was read of it. */
  #empty(table: number, ahead: number): void {
    const slots = this.#index.reserve(table, (this.#ids / TABLES) * ahead * MARGIN);
    // What is read in order is fetched ahead, so the ids find it in the cache.
    for (let at = 0; at < slots.length; at += CACHE_LINE_WORDS) this.#read ^= slots[at] as number;
    const words = this.#waiting;
    const start = table * this.#bucketWords;
    const end = start + (this.#taken[table] as number);
    for (let at = start; at < end; at += SLOT_WORDS) {
      this.#index.addWords(words[at] as number, words[at + 1] as number, offsetAt(words, at));
    }
    this.#taken[table] = 0;
  }
}

const SPLIT = new BigInt64Array(1);
const HALVES = new Int32Array(SPLIT.buffer);

/** An int64 as two signed words: through memory, because 64-bit arithmetic takes six times as long. */
function wordsOf(id: bigint): [low: number, high: number] {
  SPLIT[0] = id;
  return [HALVES[0] as number, HALVES[1] as number];
}

function mix(word: number): number {
  let hash = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/** Where the slot of an id begins in its table, or the free one that it would take. */
function findSlot(table: Int32Array, hash: number, low: number, high: number): number {
  const rest = (hash << TABLE_BITS) >>> 0;
  for (let at = Math.floor((rest * (table.length / SLOT_WORDS)) / WORD) * SLOT_WORDS; ; ) {
    if (table[at] === low && table[at + 1] === high) return at; // a free slot if the id is 0 and was not added
    if (table[at + 2] === 0 && table[at + 3] === 0) return at;
    at += SLOT_WORDS;
    if (at === table.length) at = 0;
  }
}

function putSlot(table: Int32Array, at: number, low: number, high: number, offset: number): void {
  table[at] = low;
  table[at + 1] = high;
  table[at + 2] = (offset + 1) | 0;
  table[at + 3] = Math.floor((offset + 1) / WORD);
}

/** The offset in a slot; -1 in a free one. */
function offsetAt(table: Int32Array, at: number): number {
  return (table[at + 3] as number) * WORD + ((table[at + 2] as number) >>> 0) - 1;
}
