/**
 * int64 -> byte offset of its record, in typed arrays.
 *
 * An open-addressing hash table: the id as two 32-bit halves, the offset as
 * 48 bits (256 TiB of log). A `Map` would end at 16,777,216 entries and cost
 * about 100 bytes each; this costs 14 bytes a slot. The hash is seeded, so
 * that nobody can choose ids that collide. Offsets are stored plus one: zero
 * marks a free slot. Entries are only ever added.
 */

/** A power of two. */
const SLOTS_AT_FIRST = 1024;
/** Beyond three quarters full, probe sequences grow long. */
const LOAD_MAX = 0.75;

export class IdIndex {
  readonly #seed: number;
  #mask = 0;
  #size = 0;
  #idLow = new Uint32Array(0);
  #idHigh = new Uint32Array(0);
  #offsetLow = new Uint32Array(0);
  #offsetHigh = new Uint16Array(0);

  /** @param seed any 32-bit number that an attacker cannot guess. */
  constructor(seed: number) {
    this.#seed = seed;
    this.#allocate(SLOTS_AT_FIRST);
  }

  get size(): number {
    return this.#size;
  }

  /** The byte offset of the record with this id, or `undefined`. */
  get(id: bigint): number | undefined {
    const slot = this.#findSlot(lowHalf(id), highHalf(id));
    return this.#isFree(slot) ? undefined : this.#offsetAt(slot);
  }

  /** Adds an id that is not in the index yet. */
  add(id: bigint, offset: number): void {
    if (this.#size >= (this.#mask + 1) * LOAD_MAX) this.#grow();
    this.#put(lowHalf(id), highHalf(id), offset);
    this.#size++;
  }

  #put(low: number, high: number, offset: number): void {
    const slot = this.#findSlot(low, high);
    const stored = offset + 1;
    this.#idLow[slot] = low;
    this.#idHigh[slot] = high;
    this.#offsetLow[slot] = stored % 2 ** 32;
    this.#offsetHigh[slot] = Math.floor(stored / 2 ** 32);
  }

  /** The slot that holds the id, or the free one where it belongs. */
  #findSlot(low: number, high: number): number {
    let slot = this.#hash(low, high) & this.#mask;
    while (!this.#isFree(slot) && (this.#idLow[slot] !== low || this.#idHigh[slot] !== high)) {
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }

  #isFree(slot: number): boolean {
    return this.#offsetLow[slot] === 0 && this.#offsetHigh[slot] === 0;
  }

  #offsetAt(slot: number): number {
    return (this.#offsetHigh[slot] ?? 0) * 2 ** 32 + (this.#offsetLow[slot] ?? 0) - 1;
  }

  /** The mixing steps of MurmurHash3 (public domain) over both halves. */
  #hash(low: number, high: number): number {
    let hash = this.#seed ^ low;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    hash ^= hash >>> 16;
    hash ^= high;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) >>> 0;
  }

  #grow(): void {
    const idLow = this.#idLow;
    const idHigh = this.#idHigh;
    const offsetLow = this.#offsetLow;
    const offsetHigh = this.#offsetHigh;
    this.#allocate(idLow.length * 2);
    for (let slot = 0; slot < idLow.length; slot++) {
      const stored = (offsetHigh[slot] ?? 0) * 2 ** 32 + (offsetLow[slot] ?? 0);
      if (stored > 0) this.#put(idLow[slot] ?? 0, idHigh[slot] ?? 0, stored - 1);
    }
  }

  #allocate(slots: number): void {
    this.#mask = slots - 1;
    this.#idLow = new Uint32Array(slots);
    this.#idHigh = new Uint32Array(slots);
    this.#offsetLow = new Uint32Array(slots);
    this.#offsetHigh = new Uint16Array(slots);
  }
}

function lowHalf(id: bigint): number {
  return Number(BigInt.asUintN(32, id));
}

function highHalf(id: bigint): number {
  return Number(BigInt.asUintN(32, id >> 32n));
}
