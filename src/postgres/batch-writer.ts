/**
 * Creates in a database: the plants of one turn of the event loop are one statement, on one of a few
 * connections.
 *
 * Invariants. A create is over when a statement of ours has committed its very row; a row that the
 * statement does not return is not stored. A batch keeps its random number when it is sent again, so
 * a row with that number was created by it, also if an answer was lost. A row that another
 * transaction holds, or that is refused, neither delays nor fails the others: the batch is halved
 * until that row is alone, and held rows wait on a connection of their own. A batch that has failed
 * until the deadline is halved, too, if a client still waits: one of its rows may be the cause. Once
 * every client of a plant was answered 503, it leaves the queue; if it was sent, it may still be stored,
 * because that answer leaves the outcome open.
 */
import { clock } from "../clock.ts";
import { batches } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { conflict, encodeNewPlant, type NewPlant } from "../core/plant.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { CreateOutcome, Timer } from "../core/services.ts";
import { type Connection, DatabaseFault, nextStep, type Rows } from "./connection.ts";
import { closedFault, type Database, Lane } from "./database.ts";
import { CREATE, createValues, decodeRow, isPlantOfRow, randomNumber } from "./schema.ts";

const BATCH_PLANTS_MAX = 1000;
const BATCH_BYTES_MAX = 1024 * 1024;
/** While a connection is busy, another one is used only if at least so many plants wait. */
const SHARE_PLANTS = 8;
/** How long a statement waits for a row that another transaction holds. */
const LOCK_TIMEOUT_MS = 1000;
/** The same for the halves of a batch that has such a row, and for later attempts at that row. */
const HELD_LOCK_TIMEOUT_MS = 20;
/** Before each attempt at a held row. */
const HELD_PAUSE_MS = 100;
/** How long a held row is tried at least. A client that sends it again later delays another batch by a second. */
const HELD_MS = 30_000;
const CONNECT_PAUSE_MS = 50;
/** How late a deadline may be noticed. */
const SWEEP_MS = 100;
/** About what a waiting plant takes in memory beside its strings. */
const ENTRY_BYTES = 512;

/** A caller of `create`. */
interface Waiter {
  readonly plant: NewPlant;
  /** By the monotonic clock. */
  readonly deadline: number;
  readonly resolve: (outcome: CreateOutcome) => void;
  readonly reject: (error: PlantStoreError) => void;
}

/** A plant on its way, until its row is committed or refused. */
interface Entry {
  readonly plant: NewPlant;
  readonly bytes: number;
  /** The callers that create this id and whose deadline is not over. */
  waiters: Waiter[];
  /** When another transaction was first found to hold its row, by the monotonic clock. */
  heldSince?: number;
}

/** @internal */
export interface WriterOptions {
  readonly connections: number;
  readonly queueBytesMax: number;
}

/** @internal */
export class BatchWriter {
  /** About how much memory the plants take that are not stored yet. */
  queuedBytes = 0;
  readonly #database: Database;
  readonly #options: WriterOptions;
  /** Unused lanes; the last one is used next. */
  readonly #idle: Lane[];
  /** By id: creates of one id share its row. */
  readonly #entries = new Map<bigint, Entry>();
  /** Entries for which no statement was sent yet. */
  #queue: Entry[] = [];
  readonly #heldTurns = new Semaphore(1);
  /** How many lanes are sending a batch. */
  #sending = 0;
  #isFlushDue = false;
  #sweep: Timer | undefined;

  constructor(database: Database, options: WriterOptions) {
    this.#database = database;
    this.#options = options;
    this.#idle = Array.from({ length: options.connections }, () => new Lane(database));
  }

  /**
   * Stores a plant, or waits for the create of the same id that is under way.
   *
   * @throws PlantStoreError `conflict`; `overloaded`: nothing was stored; `write_failed`: the outcome
   * is unknown.
   */
  create(plant: NewPlant): Promise<CreateOutcome> {
    return new Promise((resolve, reject) => {
      const deadline = clock.monotonicMs() + this.#database.deadlineMs;
      const waiter = { plant, deadline, resolve, reject };
      const entry = this.#entries.get(plant.id);
      if (entry === undefined) this.#add(plant, waiter);
      else entry.waiters.push(waiter);
      this.#sweep ??= clock.setTimeout(() => this.#rejectLate(), SWEEP_MS);
    });
  }

  /** Resolves when every create is answered, at the deadline at the latest. */
  async drain(): Promise<void> {
    const deadline = clock.monotonicMs() + this.#database.deadlineMs;
    const isAwaiting = () => [...this.#entries.values()].some(({ waiters }) => waiters.length > 0);
    while (isAwaiting() && clock.monotonicMs() < deadline) await this.#database.pause(10);
    clock.clearTimeout(this.#sweep);
    this.#fail([...this.#entries.values()], closedFault());
  }

  #add(plant: NewPlant, waiter: Waiter): void {
    const bytes = ENTRY_BYTES + plant.name.length + (plant.tag?.length ?? 0);
    if (this.queuedBytes + bytes > this.#options.queueBytesMax && this.#entries.size > 0) {
      throw new PlantStoreError(
        "overloaded",
        "Cannot create the plant now, because too many wait for the database; nothing was stored: " +
          "send the request again later",
      );
    }
    this.queuedBytes += bytes;
    const entry = { plant, bytes, waiters: [waiter] };
    this.#entries.set(plant.id, entry);
    this.#queue.push(entry);
    if (!this.#isFlushDue) {
      this.#isFlushDue = true;
      clock.setImmediate(() => {
        this.#isFlushDue = false;
        this.#flush();
      });
    }
  }

  /** Rejects callers at their deadline. A plant without callers that was not sent leaves the queue. */
  #rejectLate(): void {
    const now = clock.monotonicMs();
    for (const entry of this.#entries.values()) {
      if (!entry.waiters.some(({ deadline }) => deadline <= now)) continue;
      entry.waiters = entry.waiters.filter(({ deadline, reject }) => {
        if (deadline <= now) reject(writeFailed(new DatabaseFault("The deadline is over")));
        return deadline > now;
      });
    }
    for (const entry of this.#queue) if (entry.waiters.length === 0) this.#remove(entry);
    this.#queue = this.#queue.filter(({ waiters }) => waiters.length > 0);
    this.#flush(1); // no plant waits longer for a statement that is held up
    const isBusy = this.#entries.size > 0;
    this.#sweep = isBusy ? clock.setTimeout(() => this.#rejectLate(), SWEEP_MS) : undefined;
  }

  /** Gives waiting plants to an idle lane, if there are at least so many. */
  #flush(least = this.#sending > 0 ? SHARE_PLANTS : 1): void {
    if (this.#database.isClosed) this.#fail(this.#queue.splice(0), closedFault());
    const lane = this.#queue.length < least ? undefined : this.#idle.pop();
    if (lane !== undefined) void this.#work(lane);
  }

  /** Only a lane that is connected takes plants. */
  async #work(lane: Lane): Promise<void> {
    try {
      await lane.connect();
    } catch {
      this.#idle.unshift(lane);
      await this.#database.pause(CONNECT_PAUSE_MS);
      this.#flush();
      return;
    }
    const entries = this.#takeBatch();
    this.#sending++;
    this.#flush();
    await this.#send(lane, entries, LOCK_TIMEOUT_MS);
    this.#sending--;
    this.#idle.push(lane);
    this.#flush();
  }

  /** Sorted by id, so that two servers never wait for each other's rows. */
  #takeBatch(): Entry[] {
    let bytes = 0;
    let count = 0;
    for (const entry of this.#queue) {
      if (count === BATCH_PLANTS_MAX || bytes >= BATCH_BYTES_MAX) break;
      bytes += entry.bytes - ENTRY_BYTES;
      count++;
    }
    return this.#queue.splice(0, count).sort((a, b) => (a.plant.id < b.plant.id ? -1 : 1));
  }

  /** Sends a batch, in parts if need be, until each of its creates is over or held. Never rejects. */
  async #send(
    lane: Lane,
    entries: readonly Entry[],
    lockMs: number,
    { number = randomNumber(), limitMs = this.#database.deadlineMs } = {},
  ): Promise<void> {
    const begun = clock.monotonicMs();
    const plants = entries.map(({ plant }) => plant);
    const values = createValues(plants, number, lockMs);
    const create = (connection: Connection) => this.#database.write(connection, CREATE, values);
    try {
      const rows = await lane.run(create, limitMs, () => entries.some(isAwaited));
      const stored = new Map(rows.map((row) => [row[0], row]));
      this.#publish(rows, number, clock.monotonicMs() - begun);
      for (const entry of entries) {
        const row = stored.get(String(entry.plant.id));
        if (row === undefined) void this.#hold(entry, number);
        else this.#resolve(entry, row, number);
      }
    } catch (cause) {
      await this.#sendParts(lane, entries, cause as DatabaseFault, number);
    }
  }

  /** What becomes of a batch that has failed. */
  async #sendParts(
    lane: Lane,
    entries: readonly Entry[],
    fault: DatabaseFault,
    number: string,
  ): Promise<void> {
    const [first, ...others] = entries;
    const step = nextStep(fault);
    const isOver = this.#database.isClosed || step === "refuse" || !entries.some(isAwaited);
    if (first === undefined || isOver) this.#fail(entries, fault);
    else if (others.length > 0) {
      const half = entries.length >> 1;
      await this.#send(lane, entries.slice(0, half), HELD_LOCK_TIMEOUT_MS, { number });
      await this.#send(lane, entries.slice(half), HELD_LOCK_TIMEOUT_MS, { number });
    } else if (fault.sqlstate === "55P03") {
      first.heldSince ??= clock.monotonicMs();
      void this.#hold(first, number);
    } else if (step === "split") {
      this.#database.noteRefused(fault);
      this.#fail(entries, fault);
    } else void this.#hold(first, number);
  }

  /** Tries a row alone, later; one at a time, so that looks at the tokens come in between. */
  async #hold(entry: Entry, number: string): Promise<void> {
    await this.#database.pause(HELD_PAUSE_MS);
    const options = { number, limitMs: 0 };
    await this.#heldTurns.run(() =>
      this.#send(this.#database.sideWrites, [entry], HELD_LOCK_TIMEOUT_MS, options),
    );
  }

  /** @param number that of the batch: a row with it was created by this very statement. */
  #resolve(entry: Entry, row: Rows[number], number: string): void {
    this.#remove(entry);
    for (const { plant, resolve, reject } of entry.waiters) {
      if (!isPlantOfRow(plant, row)) reject(conflict(plant.id));
      else resolve(plant === entry.plant && row[4] === number ? "created" : "replayed");
    }
  }

  #fail(entries: readonly Entry[], cause: DatabaseFault): void {
    for (const entry of entries) {
      this.#remove(entry);
      for (const { reject } of entry.waiters) reject(writeFailed(cause));
    }
  }

  #remove({ plant, bytes }: Entry): void {
    if (this.#entries.delete(plant.id)) this.queuedBytes -= bytes;
  }

  /** What this batch has created; a repeat and a conflict write their rows again, too. */
  #publish(rows: Rows, number: string, syncMs: number): void {
    if (!batches.hasSubscribers) return;
    const created = rows.filter((row) => row[4] === number);
    if (created.length === 0) return;
    const lines = created.map((row) => `${encodeNewPlant(decodeRow(row))}\n`);
    const bytes = Buffer.byteLength(lines.join(""));
    const log = this.#database.state().host ?? "";
    batches.publish({ log, records: created.length, bytes, syncMs });
  }
}

/** Whether a client waits for the plant. Those of a held one may be about to send it again. */
function isAwaited({ waiters, heldSince = Number.NEGATIVE_INFINITY }: Entry): boolean {
  return waiters.length > 0 || clock.monotonicMs() - heldSince < HELD_MS;
}

function writeFailed(cause: DatabaseFault): PlantStoreError {
  const isRefused = ["refuse", "split"].includes(nextStep(cause));
  const why = isRefused
    ? "Cannot store the plant, because the database refuses it (the server's log has the reason)"
    : "Cannot say whether the plant was stored, because the database did not confirm it in time";
  return new PlantStoreError("write_failed", `${why}: send the identical request again`, { cause });
}
