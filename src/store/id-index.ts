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
/** A slot: the offset plus one as a double, which is 0 in a free slot, and the two halves of the id. */
const SLOT_WORDS = 4;
const SLOTS_MIN = 8;
/** At this load the search for an id that is not there reads 13 slots on average. */
const LOAD_MAX = 0.8;
const GROWTH = 1.5;
const WORD = 2 ** 32;
/** Shared by all empty tables: one free slot, never written. */
const NO_SLOTS = new Int32Array(SLOT_WORDS);
const NO_OFFSETS = new Float64Array(NO_SLOTS.buffer);

export class IdIndex {
  size = 0;
  readonly #seed = clock.randomBytes(4).readInt32LE();
  readonly #otherSeed = clock.randomBytes(4).readInt32LE();
  readonly #tables: Int32Array[] = Array.from({ length: TABLES }, () => NO_SLOTS);
  /** The same memory: an offset is at half the place of its slot. */
  readonly #offsets: Float64Array[] = Array.from({ length: TABLES }, () => NO_OFFSETS);
  /** How many ids each table has. */
  readonly #counts = new Int32Array(TABLES);

  /** The byte offset of the record with this id. */
  get(id: bigint): number | undefined {
    const [low, high] = wordsOf(id);
    const hash = this.hash(low, high);
    const which = hash >>> (32 - TABLE_BITS);
    const slot = findSlot(this.#tables[which] as Int32Array, hash, low, high);
    const stored = (this.#offsets[which] as Float64Array)[slot / 2] as number;
    return stored === 0 ? undefined : stored - 1;
  }

  /** Adds an id. If it is there already, its offset stays and is returned. */
  add(id: bigint, offset: number): number | undefined {
    const [low, high] = wordsOf(id);
    return this.addWords(low, high, offset);
  }

  /** Like `add`, with the id as two signed words. */
  addWords(low: number, high: number, offset: number): number | undefined {
    const hash = this.hash(low, high);
    const which = hash >>> (32 - TABLE_BITS);
    let table = this.#tables[which] as Int32Array;
    let slot = findSlot(table, hash, low, high);
    const stored = (this.#offsets[which] as Float64Array)[slot / 2] as number;
    if (stored !== 0) return stored - 1;
    const count = this.#counts[which] as number;
    if (count >= Math.floor((LOAD_MAX * table.length) / SLOT_WORDS)) {
      table = this.reserve(which, GROWTH * (count + 1));
      slot = findSlot(table, hash, low, high);
    }
    (this.#offsets[which] as Float64Array)[slot / 2] = offset + 1;
    table[slot + 2] = low;
    table[slot + 3] = high;
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
      if (old[at] === 0 && old[at + 1] === 0) continue;
      const [low, high] = [old[at + 2] as number, old[at + 3] as number];
      const slot = findSlot(table, this.hash(low, high), low, high);
      for (let word = 0; word < SLOT_WORDS; word++) table[slot + word] = old[at + word] as number;
    }
    this.#tables[which] = table;
    this.#offsets[which] = new Float64Array(table.buffer);
    return table;
  }

  /** With a secret, so that nobody can choose many ids that collide: the finalizer of MurmurHash3, twice. @internal */
  hash(low: number, high: number): number {
    return mix(mix(low ^ this.#seed) ^ high ^ this.#otherSeed);
  }
}

/** Ids that wait for their table: 21 MiB in all, or fewer for a small log. */
const BUCKET_IDS_MAX = 1365;
/** The shortest line has 19. */
const LINE_BYTES_MIN = 19;
/** Room for more, or all tables would be copied soon after a start: 4 % of each create (measured). */
const MARGIN = 1.15;
const AHEAD_MAX = 8; // an estimate from less of the log is not used: later lines may be longer
const CACHE_LINE_WORDS = 16;

/**
 * Adds the ids of a start in half the time. An index of many ids is larger than every cache, so ids wait
 * in a bucket for each table. A full bucket is added at once, to a table of about its final size, which is read before.
 */
export class IdLoader {
  readonly #index: IdIndex;
  readonly #logBytes: number;
  /** How many ids a bucket has room for. */
  readonly #room: number;
  /** Slots as in a table. */
  readonly #words: Int32Array;
  readonly #offsets: Float64Array;
  /** How many ids are in each bucket. */
  readonly #counts = new Int32Array(TABLES);
  #ids = 0;
  #read = 0; // the compiler drops a read whose result is not kept

  /** @param logBytes the length of the log, from which the number of ids is estimated. */
  constructor(index: IdIndex, logBytes: number) {
    this.#index = index;
    this.#logBytes = logBytes;
    this.#room = Math.min(BUCKET_IDS_MAX, Math.ceil(logBytes / LINE_BYTES_MIN / TABLES) + 1);
    this.#words = new Int32Array(TABLES * this.#room * SLOT_WORDS);
    this.#offsets = new Float64Array(this.#words.buffer);
  }

  /** The id is in the index after `flush`. A repeated id is dropped, and nothing says so. */
  addWords(low: number, high: number, offset: number): undefined {
    const table = this.#index.hash(low, high) >>> (32 - TABLE_BITS);
    const count = this.#counts[table] as number;
    const at = (table * this.#room + count) * SLOT_WORDS;
    this.#offsets[at / 2] = offset;
    this.#words[at + 2] = low;
    this.#words[at + 3] = high;
    this.#counts[table] = count + 1;
    this.#ids++;
    if (count + 1 < this.#room) return;
    const ahead = this.#logBytes / offset;
    this.#empty(table, ahead > AHEAD_MAX ? 2 : ahead);
  }

  flush(): void {
    for (let table = 0; table < TABLES; table++) this.#empty(table, 1);
  }

  /** @param ahead how many times as many ids as now the log may have. */
  #empty(table: number, ahead: number): void {
    const slots = this.#index.reserve(table, (this.#ids / TABLES) * ahead * MARGIN);
    // What is read in order is fetched ahead, so the ids find it in the cache.
    for (let at = 0; at < slots.length; at += CACHE_LINE_WORDS) this.#read ^= slots[at] as number;
    const [words, offsets] = [this.#words, this.#offsets];
    const start = table * this.#room * SLOT_WORDS;
    const end = start + (this.#counts[table] as number) * SLOT_WORDS;
    for (let at = start; at < end; at += SLOT_WORDS) {
      const [low, high] = [words[at + 2] as number, words[at + 3] as number];
      this.#index.addWords(low, high, offsets[at / 2] as number);
    }
    this.#counts[table] = 0;
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
    if (table[at + 2] === low && table[at + 3] === high) return at; // a free slot if the id is 0 and was not added
    if (table[at] === 0 && table[at + 1] === 0) return at;
    at += SLOT_WORDS;
    if (at === table.length) at = 0;
  }
}
