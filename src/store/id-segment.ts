/**
 * A part of the id index: one small hash table, ids to byte offsets.
 *
 * Open addressing with linear probing. A slot is 13 bytes side by side, so that
 * a look costs one cache miss: the id as two 32-bit halves, then the offset
 * plus one as 40 bits; zero there marks a free slot. The table grows in small
 * steps, so that it is never much larger than what it holds, and its owner
 * splits it before it grows long. Entries are only ever added.
 */
import type { IdHash } from "./id-hash.ts";

/** Beyond it, the probes for an id that is not there grow long (13 slots on average here). */
const LOAD_MAX = 0.8;
/** What a full table grows by: after it, two thirds of the slots are used. */
const GROWTH = 1.2;

const SLOT_BYTES = 13;
/** Where in a slot the parts stand. */
const HIGH = 4;
const OFFSET = 8;
const OFFSET_TOP = 12;

/** The first offset that does not fit: one byte short of 1 TiB. */
export const OFFSET_LIMIT = 2 ** 40 - 1;

/** Called with each entry; the id as two 32-bit halves. */
export type EntryVisitor = (low: number, high: number, offset: number) => void;

export class IdSegment {
  readonly #hash: IdHash;
  #size = 0;
  #table: DataView;
  #slots: number;

  /** @param entries how many it shall hold without growing. */
  constructor(hash: IdHash, entries: number) {
    this.#hash = hash;
    this.#table = allocate(entries);
    this.#slots = this.#table.byteLength / SLOT_BYTES;
  }

  get size(): number {
    return this.#size;
  }

  /** The offset of the id, or -1. */
  get(low: number, high: number): number {
    return readOffset(this.#table, this.#find(low, high));
  }

  /** Adds an id that is not there yet. */
  add(low: number, high: number, offset: number): void {
    if (this.#size >= this.#slots * LOAD_MAX) this.#grow();
    const at = this.#find(low, high);
    const stored = offset + 1;
    this.#table.setUint32(at, low, true);
    this.#table.setUint32(at + HIGH, high, true);
    this.#table.setUint32(at + OFFSET, stored % 2 ** 32, true);
    this.#table.setUint8(at + OFFSET_TOP, Math.floor(stored / 2 ** 32));
    this.#size++;
  }

  forEach(visit: EntryVisitor): void {
    visitEntries(this.#table, visit);
  }

  /** Where the slot starts that holds the id, or the free one where it belongs. */
  #find(low: number, high: number): number {
    const table = this.#table;
    // The hash as a fraction of its range: the number of slots is no power of two.
    let at = Math.floor((this.#hash.of(low, high) / 2 ** 32) * this.#slots) * SLOT_BYTES;
    for (;;) {
      if (table.getUint32(at, true) === low && table.getUint32(at + HIGH, true) === high) return at;
      if (isFree(table, at)) return at;
      at += SLOT_BYTES;
      if (at === table.byteLength) at = 0;
    }
  }

  #grow(): void {
    const full = this.#table;
    this.#table = allocate(Math.ceil(this.#size * GROWTH) + 1);
    this.#slots = this.#table.byteLength / SLOT_BYTES;
    this.#size = 0;
    visitEntries(full, (low, high, offset) => this.add(low, high, offset));
  }
}

/** One slot more than the load needs, because a free slot is what ends a probe. */
function allocate(entries: number): DataView {
  return new DataView(new ArrayBuffer((Math.ceil(entries / LOAD_MAX) + 1) * SLOT_BYTES));
}

function visitEntries(table: DataView, visit: EntryVisitor): void {
  for (let at = 0; at < table.byteLength; at += SLOT_BYTES) {
    if (isFree(table, at)) continue;
    visit(table.getUint32(at, true), table.getUint32(at + HIGH, true), readOffset(table, at));
  }
}

function isFree(table: DataView, at: number): boolean {
  return table.getUint32(at + OFFSET, true) === 0 && table.getUint8(at + OFFSET_TOP) === 0;
}

/** -1 for a free slot. */
function readOffset(table: DataView, at: number): number {
  return table.getUint8(at + OFFSET_TOP) * 2 ** 32 + table.getUint32(at + OFFSET, true) - 1;
}
