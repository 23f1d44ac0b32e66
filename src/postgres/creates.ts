/**
 * Creates in a database: the plants of one turn of the event loop are one statement, on one of a few connections.
 *
 * Invariants. A create is over when a statement of ours has returned and committed its row. A batch keeps its random
 * number when it is sent again, so a row with that number was created by it, even if a response was lost. A batch that
 * fails is halved: a refused row fails no other, and a locked one delays them a second at most.
 */
import { clock, sleep } from "../clock.ts";
import { batches } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { conflict, isSamePlant, type NewPlant } from "../core/plant.ts";
import type { CreateOutcome } from "../core/services.ts";
import { defaultBudget } from "../memory.ts";
import { type Connection, DatabaseError, type Rows, withTimeout } from "./connection.ts";
import type { Database } from "./database.ts";
import { SerialConnection } from "./hosts.ts";
import { CREATE, createValues, decodeRow } from "./schema.ts";

const BATCH_PLANTS_MAX = 1000;
const BATCH_BYTES_MAX = 1024 * 1024;
/** How long a statement waits for a locked row, and a part of it that is sent again. */
const LOCK_TIMEOUT_MS = 1000;
const PART_LOCK_TIMEOUT_MS = 20;
/** How long a locked row is retried: a client that sent it again would delay another batch by a second. */
const LOCKED_MS = 30_000;
const LOCKED_PAUSE_MS = 100;
const CONNECT_PAUSE_MS = 50;

/** A plant on its way, until its row is committed or refused. */
class Entry {
  readonly plant: NewPlant;
  /** About what it takes in memory. */
  readonly bytes: number;
  resolve: (row: Rows[number]) => void = () => {};
  reject: (error: DatabaseError) => void = () => {};
  readonly row = new Promise<Rows[number]>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
  /** How many creates of this id wait for the row. */
  callers = 0;
  batchNumber = "";
  /** Until when its row is tried although no client waits, by the monotonic clock. */
  triedUntil = 0;

  constructor(plant: NewPlant) {
    this.plant = plant;
    this.bytes = 512 + plant.name.length + (plant.tag?.length ?? 0);
  }
}

function isWanted(batch: readonly Entry[]): boolean {
  return batch.some(({ callers, triedUntil }) => callers > 0 || clock.monotonicMs() < triedUntil);
}

export class Creates {
  /** About how much memory the plants take that are not stored yet. */
  queuedBytes = 0;
  readonly #database: Database;
  readonly #queueBytesMax = defaultBudget();
  /** Idle connections: the last is used next, one that could not connect goes to the front. */
  readonly #idle: SerialConnection[];
  readonly #entries = new Map<bigint, Entry>();
  /** Entries for which no statement was sent yet. */
  readonly #queue = new Set<Entry>();
  #isFlushDue = false;

  constructor(database: Database, connections: number) {
    this.#database = database;
    const { hosts, deadlineMs } = database;
    this.#idle = Array.from({ length: connections }, () => new SerialConnection(hosts, deadlineMs));
  }

  /** Stores a plant, or waits for the create of the same id that is under way. */
  async create(plant: NewPlant): Promise<CreateOutcome> {
    const entry = this.#entries.get(plant.id) ?? this.#add(plant);
    entry.callers++;
    try {
      const row = await withTimeout(this.#database.deadlineMs, entry.row);
      if (!isSamePlant(plant, decodeRow(row))) throw conflict(plant.id);
      return row[4] === entry.batchNumber && plant === entry.plant ? "created" : "replayed";
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      const why = "the database did not confirm it; send the same request again";
      const message = `Cannot say whether the plant was stored: ${why}`;
      throw new PlantStoreError("write_failed", message, { cause: error });
    } finally {
      entry.callers--;
      if (entry.callers === 0 && this.#queue.delete(entry)) this.#remove(entry);
    }
  }

  /** Resolves when every create has its outcome. */
  async drain(): Promise<void> {
    while ([...this.#entries.values()].some(({ callers }) => callers > 0)) await sleep(10);
  }

  #add(plant: NewPlant): Entry {
    const entry = new Entry(plant);
    if (this.queuedBytes + entry.bytes > this.#queueBytesMax && this.#entries.size > 0) {
      const why = "too many plants wait for the database; it was not stored, retry later";
      throw new PlantStoreError("overloaded", `Cannot create the plant now: ${why}`);
    }
    this.queuedBytes += entry.bytes;
    this.#entries.set(plant.id, entry);
    this.#queue.add(entry);
    if (!this.#isFlushDue) void clock.turn().then(() => this.#flush());
    this.#isFlushDue = true;
    return entry;
  }

  /** Gives waiting plants to a connection that is idle. */
  #flush(): void {
    this.#isFlushDue = false;
    if (this.#queue.size === 0 || this.#database.hosts.isClosed) return;
    const connection = this.#idle.pop();
    if (connection !== undefined) void this.#work(connection);
  }

  /** Plants are taken from the queue once the connection is open. */
  async #work(connection: SerialConnection): Promise<void> {
    try {
      await connection.connect();
      const batch = this.#takeBatch();
      this.#flush();
      if (batch.length > 0) await this.#send(connection, batch, LOCK_TIMEOUT_MS);
      this.#idle.push(connection);
    } catch (error) {
      this.#database.warn(error as DatabaseError);
      await sleep(CONNECT_PAUSE_MS);
      this.#idle.unshift(connection);
    }
    this.#flush();
  }

  /** Sorted by id, so that two servers never wait for each other's rows. */
  #takeBatch(): Entry[] {
    const batch: Entry[] = [];
    const batchNumber = (clock.randomBytes(8).readBigUInt64LE() >> 1n).toString();
    let bytes = 0;
    for (const entry of this.#queue) {
      if (batch.length === BATCH_PLANTS_MAX || bytes >= BATCH_BYTES_MAX) break;
      bytes += entry.bytes;
      entry.batchNumber = batchNumber;
      batch.push(entry);
      this.#queue.delete(entry);
    }
    return batch.sort((a, b) => (a.plant.id < b.plant.id ? -1 : 1));
  }

  /** Sends a batch, in parts if need be, until each of its creates is over or tried later. Never rejects. */
  async #send(connection: SerialConnection, batch: readonly Entry[], lockMs: number) {
    const begun = clock.monotonicMs();
    const plants = batch.map(({ plant }) => plant);
    const values = createValues(plants, batch[0]?.batchNumber ?? "", lockMs);
    const create = (each: Connection) => this.#database.write(each, CREATE, values);
    try {
      const rows = await connection.run(create, () => isWanted(batch));
      const stored = new Map(rows.map((row) => [row[0], row]));
      let [records, bytes] = [0, 0];
      for (const entry of batch) {
        const row = stored.get(String(entry.plant.id));
        if (row === undefined) void this.#tryLater(entry);
        else this.#remove(entry).resolve(row);
        if (row?.[4] !== entry.batchNumber) continue;
        records++;
        bytes += entry.bytes;
      }
      if (records === 0 || !batches.hasSubscribers) return;
      const syncMs = clock.monotonicMs() - begun;
      batches.publish({ log: this.#database.hosts.inUse ?? "", records, bytes, syncMs });
    } catch (cause) {
      const error = cause as DatabaseError;
      const half = batch.length >> 1;
      const isLocked = error.sqlstate === "55P03"; // by another transaction
      const isRefused = half === 0 && error.isOfRow && !isLocked;
      if (isRefused || this.#database.hosts.isFinal(error) || !isWanted(batch)) {
        if (error.sqlstate !== undefined) this.#database.warn(error);
        for (const entry of batch) this.#remove(entry).reject(error);
      } else if (half > 0) {
        await this.#send(connection, batch.slice(0, half), PART_LOCK_TIMEOUT_MS);
        await this.#send(connection, batch.slice(half), PART_LOCK_TIMEOUT_MS);
      } else {
        const [entry] = batch as [Entry];
        if (isLocked) entry.triedUntil ||= clock.monotonicMs() + LOCKED_MS;
        void this.#tryLater(entry);
      }
    }
  }

  async #tryLater(entry: Entry): Promise<void> {
    await sleep(LOCKED_PAUSE_MS);
    await this.#send(this.#database.retries, [entry], PART_LOCK_TIMEOUT_MS);
  }

  #remove(entry: Entry): Entry {
    if (this.#entries.delete(entry.plant.id)) this.queuedBytes -= entry.bytes;
    return entry;
  }
}
