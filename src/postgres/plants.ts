/**
 * The plants in a database, as the port `PlantService`.
 *
 * Invariants. A create resolves after a commit of ours that covers its row. Reads are plain: they may show a plant
 * whose create has no outcome yet. Every call ends within the deadline. Lists are in order of id: a plant that was
 * durable when its list began is in it once.
 */
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { assertInt64, INT64_MAX, INT64_MIN } from "../core/json.ts";
import { encodeNewPlant, type NewPlant, unknownCursor, validatePlant } from "../core/plant.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { CreateOutcome, ListOptions, PlantService, StoreStatus } from "../core/services.ts";
import { DatabaseError, type Rows, withTimeout } from "./connection.ts";
import { Creates } from "./creates.ts";
import type { Database } from "./database.ts";
import { decodeRow, GET, PAGE } from "./schema.ts";

/** How many plants and bytes one statement lists. It takes about a millisecond, and callers may want only a few. */
const PAGE_PLANTS = 256;
const PAGE_BYTES = 256 * 1024;

/** Plants that one statement reads: each may have as many bytes as a body. */
const GROUP_PLANTS_MAX = 16;

/** A durable store of plants in a database, for any number of servers at the same time. */
export class PostgresPlants implements PlantService {
  readonly #database: Database;
  readonly #creates: Creates;
  readonly #turns = new Semaphore(1);
  /** The plants that the next statement reads, and its rows by their ids. */
  #ids: bigint[] = [];
  #rows: Promise<ReadonlyMap<unknown, Rows[number]>> = Promise.resolve(new Map());
  #isClosed = false;

  /** @internal */
  constructor(database: Database, connections: number) {
    this.#database = database;
    this.#creates = new Creates(database, connections);
  }

  /** For the admin listener; the number of plants is the database's estimate. */
  status(): StoreStatus {
    return { plants: this.#database.plants, queueBytes: this.#creates.queuedBytes };
  }

  async create(given: NewPlant): Promise<CreateOutcome> {
    const plant = validatePlant(given);
    this.#assertOpen();
    return this.#creates.create(plant);
  }

  async getLine(id: bigint): Promise<Buffer | undefined> {
    assertInt64(id);
    this.#assertOpen();
    const rows = await this.#read(() => this.#readGroup(id));
    const row = rows.get(String(id));
    return row && Buffer.from(encodeNewPlant(decodeRow(row)));
  }

  /** In order of id. */
  async *listLines({ after }: ListOptions = {}): AsyncGenerator<Buffer> {
    if (after !== undefined) assertInt64(after);
    const { reads } = this.#database;
    let from = after ?? INT64_MIN;
    for (;;) {
      this.#assertOpen();
      const values = [from, PAGE_PLANTS, PAGE_BYTES].map(String);
      const rows = await this.#read(() => reads.run((each) => each.query(PAGE, values)));
      const isCursor = from === after;
      if (isCursor && rows[0]?.[0] !== String(after)) throw unknownCursor(after);
      const plants = isCursor ? rows.slice(1) : rows;
      yield Buffer.from(plants.map((row) => `${encodeNewPlant(decodeRow(row))}\n`).join(""));
      const last = BigInt(rows.at(-1)?.[0] ?? INT64_MAX);
      if (last === INT64_MAX) return;
      from = last + 1n;
    }
  }

  /** Accepts no more calls, and waits for creates in progress, at most until their deadline. @internal */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#creates.drain();
  }

  /** Reads a plant, and all that are asked for until the statement before is over, in one statement. */
  #readGroup(id: bigint) {
    if (this.#ids.length === 0 || this.#ids.length === GROUP_PLANTS_MAX) {
      const ids: bigint[] = [];
      this.#ids = ids;
      this.#rows = this.#turns.run(async () => {
        await clock.turn();
        if (this.#ids === ids) this.#ids = [];
        const values = [`{${ids.join()}}`];
        const rows = await this.#database.reads.run((each) => each.query(GET, values));
        return new Map(rows.map((row) => [row[0], row]));
      });
    }
    this.#ids.push(id);
    return this.#rows;
  }

  /** The outcome of a read, at its deadline at the latest. While the database is away longer than that, none begins. */
  async #read<T>(read: () => Promise<T>): Promise<T> {
    const { deadlineMs, leaseAge } = this.#database;
    try {
      if (leaseAge() >= deadlineMs) throw new DatabaseError("The database is away");
      return await withTimeout(deadlineMs, read());
    } catch (cause) {
      const error = cause as DatabaseError;
      if (error.sqlstate !== undefined) this.#database.warn(error);
      const why = "the database does not respond, or refuses it; retry later";
      throw new PlantStoreError("read_failed", `Cannot read plants now: ${why}`, { cause });
    }
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new PlantStoreError("closed", "Cannot use the store: it is closed");
  }
}
