/**
 * int64 -> byte offset of its record.
 *
 * Invariants. However many ids there are, no call moves more than a run of
 * slots or allocates more than 1 MiB: growing means a second table, a third
 * larger, into which every further `add` moves a few slots; pages that were
 * emptied are used again, so there are never two full copies. Filled up to 50
 * million, no thousand adds take 10 ms (`npm run bench:scale`). A `Map`
 * would end at 16,777,216 entries and cost about 100 bytes each; this costs 16
 * to 22. Entries are only ever added.
 */
import { randomBytes } from "node:crypto";
import { IdHash, SEED_BYTES } from "./id-hash.ts";
import { OFFSET_LIMIT, PAGE_SLOTS, PagePool, SLACK, SlotTable } from "./slot-table.ts";

/** Beyond it, the probes for an id that is not there grow long (13 slots on average here). */
const LOAD_MAX = 0.8;
/**
 * What a full table grows by: after it, three slots in five are used, 21.7 bytes an
 * id. Less would save memory and move every entry more often.
 */
const GROWTH = 4 / 3;
/** With its slack, one page. */
const HOMES_MIN = PAGE_SLOTS - SLACK;
/**
 * Slots moved with every `add`. A table of `homes` slots is full again after
 * `homes * LOAD_MAX * (GROWTH - 1)` of them, so four would just empty the old one in time.
 */
const MOVES = 5;

export class IdIndex {
  readonly #hash: IdHash;
  readonly #pool = new PagePool();
  #table: SlotTable;
  /** The table before it, while it is being emptied: ids whose home there is behind `#moved`. */
  #old: SlotTable | undefined;
  #moved = 0;
  #size = 0;
  // An id is split into halves through memory: 64-bit arithmetic costs ten times as much.
  readonly #id = new BigInt64Array(1);
  readonly #halves = new Uint32Array(this.#id.buffer);

  /**
   * @param expected how many ids are likely to come at once.
   * @param seed `SEED_BYTES` bytes that an attacker cannot guess.
   */
  constructor(expected = 0, seed: Uint8Array = randomBytes(SEED_BYTES)) {
    this.#hash = new IdHash(seed);
    const homes = Math.max(HOMES_MIN, Math.ceil(expected / LOAD_MAX));
    this.#table = new SlotTable(homes, this.#hash, this.#pool);
  }

  get size(): number {
    return this.#size;
  }

  /** The byte offset of the record with this id, or `undefined`. */
  get(id: bigint): number | undefined {
    this.#id[0] = id;
    const low = this.#halves[0] as number;
    const high = this.#halves[1] as number;
    const hash = this.#hash.of(low, high);
    const offset = this.#tableOf(hash).get(hash, low, high);
    return offset < 0 ? undefined : offset;
  }

  /**
   * Adds an id, unless it is there: then the offset it has, which stays, is returned.
   *
   * @throws RangeError for an offset of 1 TiB or more.
   */
  add(id: bigint, offset: number): number | undefined {
    this.#id[0] = id;
    return this.#add(this.#halves[0] as number, this.#halves[1] as number, offset);
  }

  /**
   * The same for an id that a double holds exactly, so that a scan makes no
   * bigint a line: 50 ns less.
   */
  addNumber(id: number, offset: number): number | undefined {
    // To unsigned 32 bits is modulo 2^32, so a negative id comes out as its two's complement.
    return this.#add(id >>> 0, Math.floor(id / 2 ** 32) >>> 0, offset);
  }

  #add(low: number, high: number, offset: number): number | undefined {
    if (offset >= OFFSET_LIMIT) throw new RangeError(`offset: expected less, got ${offset}`);
    this.#makeRoom();
    const hash = this.#hash.of(low, high);
    const present = this.#tableOf(hash).addUnlessThere(hash, low, high, offset);
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
