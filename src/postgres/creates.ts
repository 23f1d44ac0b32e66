/**
 * Creates in a database: the plants of one turn of the event loop are one statement, on one of a few
 * connections.
 *
 * Invariants. A create is over when a statement of ours has committed its very row; a row that the statement does
 * not return is not stored. A batch keeps its random number when it is sent again, so a row with that number was
 * created by it, also if a response was lost. A row that is locked or refused neither delays nor fails the others:
 * the batch is halved until that row is alone, and locked rows wait on a connection of their own. A batch that has
 * failed until the deadline is halved, too, if a client still waits. A plant that no client waits for leaves the
 * queue; if it was sent, it may still be stored, because the response leaves the outcome open.
 */
import { clock, sleep } from "../clock.ts";
import { batches } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { conflict, type NewPlant } from "../core/plant.ts";
import type { CreateOutcome, Timer } from "../core/services.ts";
import { type Connection, DatabaseError, type Rows } from "./connection.ts";
import type { Database } from "./database.ts";
import { CREATE, createValues, isPlantOfRow } from "./schema.ts";
import { isOfRow, ROW_LOCKED, SerialConnection, withTimeout } from "./serial-connection.ts";

const BATCH_PLANTS_MAX = 1000;
const BATCH_BYTES_MAX = 1024 * 1024;
/** While a connection is busy, another one is used only if so many plants wait, or one has waited so long. */
const SHARE_PLANTS = 8;
const SHARE_MS = 100;
/** How long a statement waits for a row that another transaction has locked. */
const LOCK_TIMEOUT_MS = 1000;
/** The same for the halves of a batch that has such a row, and for later attempts at that row. */
const LOCKED_TIMEOUT_MS = 20;
/** Before each attempt at a locked row. */
const LOCKED_PAUSE_MS = 100;
/** How long a locked row is tried at least. A client that sends it again later delays another batch by a second. */
const LOCKED_MS = 30_000;
const CONNECT_PAUSE_MS = 50;
/** About what a waiting plant takes in memory beside its strings. */
const ENTRY_BYTES = 512;

/** The row that has the id of a plant, and whether the plant has made it. */
interface Stored {
  readonly row: Rows[number];
  readonly isNew: boolean;
}

/** A plant on its way, until its row is committed or refused. */
interface Entry {
  readonly plant: NewPlant;
  readonly bytes: number;
  readonly stored: Promise<Stored>;
  readonly resolve: (stored: Stored) => void;
  readonly reject: (error: DatabaseError) => void;
  /** How many clients wait: creates of one id share its row. */
  clients: number;
  /** When another transaction was first found to have locked its row, by the monotonic clock. */
  lockedSince: number | undefined;
}

/** @internal */
export class Creates {
  /** About how much memory the plants take that are not stored yet. */
  queuedBytes = 0;
  readonly #database: Database;
  readonly #queueBytesMax: number;
  /** Those that are not used; the last one is used next. */
  readonly #idle: SerialConnection[];
  readonly #entries = new Map<bigint, Entry>();
  /** Entries for which no statement was sent yet. */
  readonly #queue = new Set<Entry>();
  /** How many connections are sending a batch. */
  #sending = 0;
  #isFlushDue = false;
  #share: Timer | undefined;

  constructor(database: Database, connections: number, queueBytesMax: number) {
    this.#database = database;
    this.#queueBytesMax = queueBytesMax;
    this.#idle = Array.from({ length: connections }, () => new SerialConnection(database));
  }

  /**
   * Stores a plant, or waits for the create of the same id that is under way.
   *
   * @throws PlantStoreError `conflict`; `overloaded`: nothing was stored; `write_failed`: the outcome is unknown.
   */
  async create(plant: NewPlant): Promise<CreateOutcome> {
    const entry = this.#entries.get(plant.id) ?? this.#add(plant);
    entry.clients++;
    try {
      const { row, isNew } = await withTimeout(this.#database.deadlineMs, entry.stored);
      if (!isPlantOfRow(plant, row)) throw conflict(plant.id);
      return isNew && plant === entry.plant ? "created" : "replayed";
    } catch (cause) {
      throw cause instanceof DatabaseError ? writeFailed(cause) : cause;
    } finally {
      if (--entry.clients === 0 && this.#queue.delete(entry)) this.#remove(entry);
    }
  }

  /** Resolves when every create has its outcome, at the deadline at the latest. */
  async drain(): Promise<void> {
    const awaited = [...this.#entries.values()].filter(({ clients }) => clients > 0);
    const all = Promise.allSettled(awaited.map(({ stored }) => stored));
    await withTimeout(this.#database.deadlineMs, all).catch(() => {});
  }

  #add(plant: NewPlant): Entry {
    const bytes = ENTRY_BYTES + plant.name.length + (plant.tag?.length ?? 0);
    if (this.queuedBytes + bytes > this.#queueBytesMax && this.#entries.size > 0) {
      throw new PlantStoreError(
        "overloaded",
        "Cannot create the plant now, because too many wait for the database; nothing was stored: " +
          "send the request again later",
      );
    }
    let resolve: Entry["resolve"] = () => {};
    let reject: Entry["reject"] = () => {};
    const stored = new Promise<Stored>((...outcomes) => {
      [resolve, reject] = outcomes;
    });
    stored.catch(() => {}); // its clients may be gone
    const entry = { plant, bytes, stored, resolve, reject, clients: 0, lockedSince: undefined };
    this.queuedBytes += bytes;
    this.#entries.set(plant.id, entry);
    this.#queue.add(entry);
    if (!this.#isFlushDue) clock.setImmediate(() => this.#flush());
    this.#isFlushDue = true;
    return entry;
  }

  /** Gives waiting plants to connections that are idle, if there are at least so many. */
  #flush(least = this.#sending > 0 ? SHARE_PLANTS : 1): void {
    this.#isFlushDue = false;
    if (this.#queue.size >= least && !this.#database.isClosed) {
      const lane = this.#idle.pop();
      if (lane !== undefined) void this.#work(lane);
    } else if (this.#queue.size > 0) {
      this.#share ??= clock.setTimeout(() => {
        this.#share = undefined;
        this.#flush(1);
      }, SHARE_MS);
    }
  }

  /** Only what is connected takes plants. */
  async #work(lane: SerialConnection): Promise<void> {
    try {
      await lane.connect();
    } catch {
      this.#idle.unshift(lane);
      await sleep(CONNECT_PAUSE_MS);
      this.#flush();
      return;
    }
    const batch = this.#takeBatch();
    this.#sending++;
    this.#flush();
    await this.#send(lane, batch, randomNumber(), LOCK_TIMEOUT_MS);
    this.#sending--;
    this.#idle.push(lane);
    this.#flush();
  }

  /** Sorted by id, so that two servers never wait for each other's rows. */
  #takeBatch(): Entry[] {
    const batch: Entry[] = [];
    let bytes = 0;
    for (const entry of this.#queue) {
      if (batch.length === BATCH_PLANTS_MAX || bytes >= BATCH_BYTES_MAX) break;
      bytes += entry.bytes - ENTRY_BYTES;
      batch.push(entry);
      this.#queue.delete(entry);
    }
    return batch.sort((a, b) => (a.plant.id < b.plant.id ? -1 : 1));
  }

  /** Sends a batch, in parts if need be, until each of its creates is over or locked. Never rejects. */
  async #send(
    lane: SerialConnection,
    batch: readonly Entry[],
    number: string,
    lockMs: number,
    limitMs = this.#database.deadlineMs,
  ): Promise<void> {
    if (batch.length === 0) return;
    const begun = clock.monotonicMs();
    const values = createValues(
      batch.map(({ plant }) => plant),
      number,
      lockMs,
    );
    const create = (connection: Connection) => this.#database.write(connection, CREATE, values);
    try {
      const rows = await lane.run(create, limitMs, () => batch.some(isAwaited));
      const stored = new Map(rows.map((row) => [row[0], row]));
      const created: Entry[] = [];
      for (const entry of batch) {
        const row = stored.get(String(entry.plant.id));
        if (row === undefined) void this.#retryLater(entry, number);
        else {
          this.#remove(entry);
          entry.resolve({ row, isNew: row[4] === number });
          if (row[4] === number) created.push(entry);
        }
      }
      this.#publish(created, clock.monotonicMs() - begun);
    } catch (error) {
      await this.#sendParts(lane, batch, error as DatabaseError, number);
    }
  }

  /** What becomes of a batch that has failed. */
  async #sendParts(
    lane: SerialConnection,
    batch: readonly Entry[],
    error: DatabaseError,
    number: string,
  ): Promise<void> {
    const [first, ...others] = batch as [Entry, ...Entry[]];
    const isLocked = error.sqlstate === ROW_LOCKED;
    const isOver = this.#database.isClosed || this.#database.isFinal(error);
    if (isOver || !batch.some(isAwaited)) this.#fail(batch, error);
    else if (others.length > 0) {
      const half = batch.length >> 1;
      for (const part of [batch.slice(0, half), batch.slice(half)]) {
        await this.#send(lane, part, number, LOCKED_TIMEOUT_MS);
      }
    } else if (isOfRow(error) && !isLocked) this.#fail(batch, error);
    else {
      if (isLocked) first.lockedSince ??= clock.monotonicMs();
      void this.#retryLater(first, number);
    }
  }

  async #retryLater(entry: Entry, number: string): Promise<void> {
    await sleep(LOCKED_PAUSE_MS);
    await this.#send(this.#database.writes, [entry], number, LOCKED_TIMEOUT_MS, 0);
  }

  #fail(batch: readonly Entry[], error: DatabaseError): void {
    this.#database.warnOfRefusal(error);
    for (const entry of batch) {
      this.#remove(entry);
      entry.reject(error);
    }
  }

  #remove({ plant, bytes }: Entry): void {
    if (this.#entries.delete(plant.id)) this.queuedBytes -= bytes;
  }

  /** A repeat and a conflict write their rows, too, but nothing new. */
  #publish(created: readonly Entry[], syncMs: number): void {
    if (!batches.hasSubscribers || created.length === 0) return;
    const bytes = created.reduce((sum, entry) => sum + entry.bytes - ENTRY_BYTES, 0);
    const log = this.#database.state().host ?? "";
    batches.publish({ log, records: created.length, bytes, syncMs });
  }
}

/** Whether a client waits for the plant. Those of a locked row may be about to send it again. */
function isAwaited({ clients, lockedSince = Number.NEGATIVE_INFINITY }: Entry): boolean {
  return clients > 0 || clock.monotonicMs() - lockedSince < LOCKED_MS;
}

/** 63 random bits in decimal. */
function randomNumber(): string {
  return (clock.randomBytes(8).readBigUInt64LE() >> 1n).toString();
}

function writeFailed(cause: DatabaseError): PlantStoreError {
  const why =
    cause.sqlstate === undefined || cause.sqlstate === ROW_LOCKED
      ? "Cannot say whether the plant was stored, because the database did not confirm it in time"
      : "Cannot store the plant, because the database refuses it (the server's log has the reason)";
  return new PlantStoreError("write_failed", `${why}: send the identical request again`, { cause });
}
