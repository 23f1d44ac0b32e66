/**
 * int64 -> byte offset of its record.
 *
 * Invariants. No call moves more than `SEGMENT_ENTRIES` entries or allocates
 * more than a small segment, however many ids there are: the index is split
 * into segments by the hash of the id, each of which grows in small steps and
 * is split in two when it is full. A `Map` would end at 16,777,216 entries and
 * cost about 100 bytes each; this costs 16 to 20. Entries are only ever added.
 *
 * The topmost bits of a hash pick a shelf, the next ones a segment on it
 * (extendible hashing): when a segment is split, at most its own shelf doubles.
 */
import { randomBytes } from "node:crypto";
import { IdHash, SEED_BYTES } from "./id-hash.ts";
import { IdSegment, OFFSET_LIMIT } from "./id-segment.ts";

const SHELF_BITS = 10;
/** A segment of so many entries is split: 40 us of work, 33 KB of memory. */
const SEGMENT_ENTRIES = 2048;
/** The segments of a small index stay tiny. */
const FIRST_ENTRIES = 4;

/** A segment, and how many of the lowest bits all its hashes have in common. */
interface Section {
  readonly bits: number;
  readonly segment: IdSegment;
}

/** Sections by the lowest bits of the hash; its length is a power of two. */
type Shelf = Section[];

export class IdIndex {
  /** Picks shelf and section. */
  readonly #place: IdHash;
  /** Picks the slot in a segment. */
  readonly #slot: IdHash;
  readonly #shelves: Shelf[] = [];
  #size = 0;

  /** @param seed `SEED_BYTES` bytes that an attacker cannot guess. */
  constructor(seed: Uint8Array = randomBytes(SEED_BYTES)) {
    this.#place = new IdHash(seed, 0);
    this.#slot = new IdHash(seed, 1);
    for (let shelf = 0; shelf < 2 ** SHELF_BITS; shelf++) {
      this.#shelves.push([{ bits: 0, segment: new IdSegment(this.#slot, FIRST_ENTRIES) }]);
    }
  }

  get size(): number {
    return this.#size;
  }

  /** The byte offset of the record with this id, or `undefined`. */
  get(id: bigint): number | undefined {
    const low = lowHalf(id);
    const high = highHalf(id);
    const hash = this.#place.of(low, high);
    const offset = findSection(this.#shelfOf(hash), hash).segment.get(low, high);
    return offset < 0 ? undefined : offset;
  }

  /**
   * Adds an id that is not in the index yet.
   *
   * @throws RangeError for an offset of 1 TiB or more.
   */
  add(id: bigint, offset: number): void {
    if (offset >= OFFSET_LIMIT) throw new RangeError(`offset: expected less, got ${offset}`);
    const low = lowHalf(id);
    const high = highHalf(id);
    const hash = this.#place.of(low, high);
    const shelf = this.#shelfOf(hash);
    const section = findSection(shelf, hash);
    if (section.segment.size >= SEGMENT_ENTRIES) this.#split(shelf, section);
    findSection(shelf, hash).segment.add(low, high, offset);
    this.#size++;
  }

  #shelfOf(hash: number): Shelf {
    return this.#shelves[hash >>> (32 - SHELF_BITS)] as Shelf;
  }

  /** Puts two sections in the place of one, by the next bit of the hash. */
  #split(shelf: Shelf, full: Section): void {
    if (shelf.length === 2 ** full.bits) shelf.push(...shelf);
    const halves = [0, 1].map(() => ({
      bits: full.bits + 1,
      segment: new IdSegment(this.#slot, SEGMENT_ENTRIES / 2),
    }));
    full.segment.forEach((low, high, offset) => {
      const bit = (this.#place.of(low, high) >>> full.bits) & 1;
      halves[bit]?.segment.add(low, high, offset);
    });
    for (const [place, section] of shelf.entries()) {
      if (section === full) shelf[place] = halves[(place >>> full.bits) & 1] as Section;
    }
  }
}

function findSection(shelf: Shelf, hash: number): Section {
  return shelf[hash & (shelf.length - 1)] as Section;
}

function lowHalf(id: bigint): number {
  return Number(BigInt.asUintN(32, id));
}

function highHalf(id: bigint): number {
  return Number(BigInt.asUintN(32, id >> 32n));
}
