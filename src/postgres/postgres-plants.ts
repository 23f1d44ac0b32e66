/**
 * The plants in a database, as the port `PlantService`.
 *
 * Invariants. A create is answered after a commit of ours that covers its row. Reads are plain: they
 * may show a plant whose create was not answered yet. Every call ends within the deadline. Lists are
 * in order of id: a plant that was durable when its list began is in it once.
 */
import { clock } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { assertInt64, INT64_MAX, INT64_MIN } from "../core/json.ts";
import { assertNumbers, NUMBER_OPTIONS } from "../core/options.ts";
import { encodeNewPlant, type NewPlant, unknownCursor, validatePlant } from "../core/plant.ts";
import type {
  CreateOutcome,
  DatabaseStatus,
  ListOptions,
  PlantService,
  StoreStatus,
} from "../core/services.ts";
import { defaultBudget } from "../memory.ts";
import { BatchWriter, type WriterOptions } from "./batch-writer.ts";
import { DatabaseFault, makeClient, nextStep, type Rows } from "./connection.ts";
import { Database, type DatabaseOptions, within } from "./database.ts";
import { decodeRow, GET, PAGE } from "./schema.ts";

export interface PostgresPlantsOptions extends DatabaseOptions {
  /** Every call is answered within it. Default: 10 s. */
  readonly databaseDeadlineMs?: number | undefined;
  /** Connections for creates; there are up to three more. Default: 4. */
  readonly databaseConnections?: number | undefined;
  /** What the plants that wait for the database may take in memory. Default: 4 to 64 MiB, by the memory there is. */
  readonly queueBytesMax?: number | undefined;
}

/** How many plants one statement reads: more would delay later reads. */
const GET_PLANTS_MAX = 64;
/** Pages begin small, for callers that take only a few plants. */
const PAGE_PLANTS = 128;
const PAGE_PLANTS_MAX = 2048;
const PAGE_BYTES = 256 * 1024;
/** Each slice of lines takes about a millisecond. */
const SLICE_CHARACTERS = 32 * 1024;

interface Read {
  readonly id: bigint;
  readonly resolve: (plant: NewPlant | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** A durable store of plants in a database, for any number of servers at the same time. */
export class PostgresPlants implements PlantService {
  /** @internal */
  readonly database: Database;
  readonly #writer: BatchWriter;
  /** Reads that are not over. */
  readonly #calls = new Set<Promise<unknown>>();
  #reads: Read[] = [];
  #isReading = false;
  #closing: Promise<void> | undefined;

  private constructor(database: Database, options: WriterOptions) {
    this.database = database;
    this.#writer = new BatchWriter(database, options);
  }

  /**
   * Finds the database, and checks that what it commits is durable.
   *
   * @throws PlantStoreError `io_error` if no host of the URL can be used within the deadline,
   * `corruption` if plants must not be stored in the database; the message has what mends it.
   * @throws TypeError or RangeError for a wrong option.
   */
  static async open(options: PostgresPlantsOptions): Promise<PostgresPlants> {
    makeClient(options.pg); // throws if the driver is not the one that is needed
    assertNumbers(options);
    const {
      databaseDeadlineMs = NUMBER_OPTIONS.databaseDeadlineMs.default,
      databaseConnections: connections = NUMBER_OPTIONS.databaseConnections.default,
      queueBytesMax = defaultBudget(),
    } = options;
    const database = await Database.open(options, databaseDeadlineMs);
    return new PostgresPlants(database, { connections, queueBytesMax });
  }

  /** For the operator. */
  state(): Omit<DatabaseStatus, "leaseAgeMs"> {
    return this.database.state();
  }

  /** For the admin listener; the number of plants is the database's estimate. */
  status(): StoreStatus {
    return { plants: this.database.inspection?.plants, queueBytes: this.#writer.queuedBytes };
  }

  async create(given: NewPlant): Promise<CreateOutcome> {
    const plant = validatePlant(given);
    this.#assertUsable();
    return this.#writer.create(plant);
  }

  async getLine(id: bigint): Promise<Buffer | undefined> {
    const plant = await this.get(id);
    return plant && Buffer.from(encodeNewPlant(plant));
  }

  async get(id: bigint): Promise<NewPlant | undefined> {
    assertInt64(id);
    this.#assertUsable();
    const reading = new Promise<NewPlant | undefined>((resolve, reject) => {
      this.#reads.push({ id, resolve, reject });
    });
    if (!this.#isReading) {
      this.#isReading = true;
      clock.setImmediate(() => this.#readNext());
    }
    // It may wait for the statement of earlier reads.
    return this.#answer(within(this.database.deadlineMs, reading));
  }

  /** In order of id. */
  async *list({ after }: ListOptions = {}): AsyncGenerator<NewPlant> {
    for await (const rows of this.#pages({ after })) yield* rows.map(decodeRow);
  }

  /** In order of id. */
  async *listLines({ after }: ListOptions = {}): AsyncGenerator<Buffer> {
    for await (const rows of this.#pages({ after })) {
      let slice = "";
      for (const row of rows) {
        slice += `${encodeNewPlant(decodeRow(row))}\n`;
        if (slice.length < SLICE_CHARACTERS) continue;
        yield Buffer.from(slice);
        slice = "";
      }
      yield Buffer.from(slice);
    }
  }

  /** Accepts no more calls, waits for those in progress, at most until their deadline, and logs out. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled([...this.#calls, this.#writer.drain()]);
    await this.database.close();
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** All reads that wait are one statement. */
  async #readNext(): Promise<void> {
    while (this.#reads.length > 0) {
      const reads = this.#reads.splice(0, GET_PLANTS_MAX);
      try {
        const rows = await this.database.reads.query(GET, [
          `{${reads.map(({ id }) => id).join()}}`,
        ]);
        const found = new Map(rows.map((row) => [row[0], row]));
        for (const { id, resolve } of reads) {
          const row = found.get(String(id));
          resolve(row && decodeRow(row));
        }
      } catch (error) {
        for (const { reject } of reads) reject(error);
      }
    }
    this.#isReading = false;
  }

  async *#pages({ after }: ListOptions): AsyncGenerator<Rows> {
    if (after !== undefined) assertInt64(after);
    let from = after ?? INT64_MIN;
    let isCursor = after !== undefined;
    for (let limit = PAGE_PLANTS; ; limit = Math.min(2 * limit, PAGE_PLANTS_MAX)) {
      this.#assertUsable();
      const values = [String(from), String(limit), String(PAGE_BYTES)];
      const rows = await this.#answer(this.database.reads.query(PAGE, values));
      if (isCursor && rows[0]?.[0] !== String(after)) throw unknownCursor(after);
      yield isCursor ? rows.slice(1) : rows;
      isCursor = false;
      const last = BigInt(rows.at(-1)?.[0] ?? INT64_MAX);
      if (last === INT64_MAX) return;
      from = last + 1n;
    }
  }

  /** The outcome of a read that ends at its deadline; `close` waits for it. */
  async #answer<T>(read: Promise<T>): Promise<T> {
    this.#calls.add(read);
    try {
      return await read;
    } catch (cause) {
      const isRefused = cause instanceof DatabaseFault && nextStep(cause) === "refuse";
      throw new PlantStoreError(
        "store_failed",
        isRefused
          ? "Cannot read plants, because the database refuses it; the reason is in the server's log"
          : "Cannot read plants now, because the database does not answer: send the request again later",
        { cause },
      );
    } finally {
      this.#calls.delete(read);
    }
  }

  #assertUsable(): void {
    if (this.#closing !== undefined) {
      throw new PlantStoreError("closed", "Cannot use the store: it is closed");
    }
    const { refusal } = this.database;
    if (refusal === undefined) return;
    throw new PlantStoreError(
      "store_failed",
      "Cannot use the store: its database is not set up to keep plants safely; the reason is in " +
        "the server's log",
      { cause: new DatabaseFault(refusal) },
    );
  }
}
