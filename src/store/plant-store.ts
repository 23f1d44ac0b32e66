/**
 * The plant store: an append-only log and an index of it in memory.
 *
 * Invariants. The first record of an id is never replaced. A record enters the index only after it is durable,
 * and reads see only the records of the index. Of several creates of one id in flight one writes, and the others
 * share its outcome: an earlier response would acknowledge a plant that is not durable.
 */
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { assertInt64 } from "../core/json.ts";
import { assertNumbers } from "../core/options.ts";
import {
  conflict,
  encodeNewPlant,
  isSamePlant,
  type NewPlant,
  parseNewPlant,
  unknownCursor,
  validatePlant,
} from "../core/plant.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { CreateOutcome, ListOptions, PlantService, StoreStatus } from "../core/services.ts";
import { writeCheckpoint } from "../log/checkpoint.ts";
import { lineError, linesOf, readBlocks, readLine } from "../log/lines.ts";
import { LogWriter } from "../log/writer.ts";
import { NewestLines } from "./newest-lines.ts";
import { type OpenLog, openLog } from "./open.ts";
import { matchPlant, type OnProgress, readPlants } from "./scan.ts";

export interface PlantStoreOptions {
  /** The command that the error of another process names as the holder. Default: `library`. */
  readonly command?: string;
  /** Upper bound on bytes of records that wait for the disk. Default: 4 to 64 MiB, by the memory there is. */
  readonly queueBytesMax?: number | undefined;
  /** Receives how much of the log was read, about once a MiB; an error it throws aborts the opening. */
  readonly onProgress?: OnProgress;
}

/** How often an open store checks that its lock and its log are in their place, and writes a checkpoint. */
const CHECK_MS = 10_000;
/** What a list reads at once: half a millisecond of work. */
const LIST_BLOCK_BYTES = 32 * 1024;

/** A durable store of plants in a data directory, to which only this process writes while it is open. */
export class PlantStore implements PlantService {
  /**
   * Resolves, never rejects, when the store has failed for good: a sync failed, or the log was removed or changed.
   * Then open the directory again; if the code of the error's cause is `unsynced`, restart the machine before.
   */
  readonly failed: Promise<PlantStoreError>;
  readonly #log: OpenLog;
  readonly #writer: LogWriter;
  readonly #newest = new NewestLines();
  /** Creates in flight, by their ids; `start` resolves once the plant is durable. */
  readonly #storing = new Map<bigint, { plant: NewPlant; start: Promise<number> }>();
  /** Node's pool has four threads: two are left for appends and for polls of the tokens while reads hang. */
  readonly #readSlots = new Semaphore(2);
  /** Reads under way, for which a close waits. */
  readonly #reading = new Set<Promise<unknown>>();
  readonly #interval = clock.setInterval(() => void this.#check(), CHECK_MS);
  #checking: Promise<void> = Promise.resolve();
  #checkpointBytes: number | undefined;
  #closing: Promise<void> | undefined;

  private constructor(log: OpenLog, queueBytesMax: number | undefined) {
    this.#log = log;
    this.#writer = new LogWriter(log.file, log.end, queueBytesMax);
    this.#writer.onDurable = this.#newest.add.bind(this.#newest);
    this.failed = this.#writer.failed;
    this.#interval.unref();
  }

  /**
   * Opens a data directory, makes it if it is missing, and recovers its log.
   *
   * @throws PlantStoreError `locked` if another process has it, `corruption` if a person has to look at the log,
   * `unsynced` if the disk does not sync the log, `io_error` if the system refuses.
   * @throws RangeError, before anything is changed, for a number out of its range (`NUMBER_OPTIONS`).
   */
  static async open(directory: string, options: PlantStoreOptions = {}): Promise<PlantStore> {
    const { command = "library", onProgress, queueBytesMax } = options;
    assertNumbers({ queueBytesMax });
    let store: PlantStore | undefined;
    const log = await openLog(directory, command, () => store?.status().logBytes, onProgress);
    store = new PlantStore(log, queueBytesMax);
    await store.#check(); // its checkpoint shows the next start what the disk has lost; a copied one is synced
    return store;
  }

  /** For the operator. */
  status(): StoreStatus & { readonly plants: number; readonly logBytes: number } {
    const { end, queuedBytes, msSinceRefusal } = this.#writer;
    const plants = this.#log.index.size;
    return { plants, logBytes: end.bytes, queueBytes: queuedBytes, msSinceRefusal };
  }

  async create(given: NewPlant): Promise<CreateOutcome> {
    const plant = validatePlant(given);
    this.#assertUsable();
    const { id } = plant;
    const inFlight = this.#storing.get(id);
    if (inFlight !== undefined) {
      await inFlight.start;
      return assertRepeat(inFlight.plant, plant);
    }
    const { index } = this.#log;
    const taken = index.get(id);
    if (taken !== undefined) {
      const line = await this.#readLine(id, taken);
      await this.#writer.assertUnchanged(); // a repeat is acknowledged, too
      return assertRepeat(parseNewPlant(line), plant);
    }
    const { start, at } = this.#writer.append(encodeNewPlant(plant));
    this.#storing.set(id, { plant, start });
    try {
      index.add(id, (await start) + at);
      return "created";
    } catch (cause) {
      // Without memory for the index, the id could be stored once more.
      throw cause instanceof PlantStoreError ? cause : this.#writer.fail(cause);
    } finally {
      this.#storing.delete(id);
    }
  }

  /** The durable plant with this id. */
  async get(id: bigint): Promise<NewPlant | undefined> {
    const line = await this.getLine(id);
    return line && parseNewPlant(line);
  }

  async getLine(id: bigint): Promise<Buffer | undefined> {
    assertInt64(id);
    this.#assertUsable();
    const offset = this.#log.index.get(id);
    return offset === undefined ? undefined : this.#readLine(id, offset);
  }

  async #readLine(id: bigint, offset: number): Promise<Buffer> {
    const newest = this.#newest.lineAt(offset);
    if (newest !== undefined) return newest;
    const { file } = this.#log;
    try {
      const line = await this.#read(() => readLine(file, offset, this.#writer.end.bytes));
      if (matchPlant(line)?.id === id) return line;
      throw lineError(file.path, { offset }, `plant ${id} is no longer there`);
    } catch (cause) {
      throw this.#classifyReadError(cause);
    }
  }

  /** Every read of the log begins here, so none is under way when it is closed. */
  async #read<T>(work: () => Promise<T>): Promise<T> {
    this.#assertUsable();
    const reading = this.#readSlots.run(work);
    this.#reading.add(reading);
    return reading.finally(() => this.#reading.delete(reading));
  }

  /** The plants that are durable at the time of the call, or those after one of them, oldest first. */
  async *list(options?: ListOptions): AsyncGenerator<NewPlant> {
    for await (const lines of this.listLines(options)) {
      for (const line of linesOf(lines)) yield parseNewPlant(line);
    }
  }

  async *listLines({ after }: ListOptions = {}): AsyncGenerator<Buffer> {
    if (after !== undefined) assertInt64(after);
    this.#assertUsable();
    const { file, index } = this.#log;
    const found = after === undefined ? 0 : index.get(after);
    if (found === undefined) throw unknownCursor(after);
    const end = this.#writer.end.bytes;
    const read = (buffer: Buffer, at: number) => this.#read(() => file.read(buffer, at));
    const source = { path: file.path, read };
    try {
      let at = found;
      if (after !== undefined) at += (await readLine(source, found, end)).length + 1;
      for await (const { bytes, offset } of readBlocks(source, at, end, LIST_BLOCK_BYTES)) {
        const length = readPlants(bytes);
        at = offset + length;
        if (length < bytes.length) break;
        yield bytes;
      }
      if (at < end) throw lineError(file.path, { offset: at }, "it is no plant any more");
    } catch (cause) {
      this.#assertUsable(); // a closed or failed store is no read error
      throw this.#classifyReadError(cause);
    }
  }

  /** A log that is not what was written fails the store; any other failure is that of one read. */
  #classifyReadError(cause: unknown): PlantStoreError {
    const isDamage = cause instanceof PlantStoreError && cause.code === "corruption";
    if (isDamage) return this.#writer.fail(cause);
    publishWarning("A plant cannot be read; check the disk and the memory", cause);
    const why = "Cannot read a stored plant now; send the same request again later";
    return new PlantStoreError("read_failed", why, { cause });
  }

  /** Fails the store if its lock or its log is gone; writes a checkpoint if the log has grown. Never rejects. */
  #check(): Promise<void> {
    this.#checking = this.#checking.then(async () => {
      try {
        await this.#writer.assertUnchanged();
        const { end } = this.#writer;
        if (end.bytes === this.#checkpointBytes) return;
        const { file } = this.#log;
        const assertHeld = () => file.assertUnchanged(end.bytes, Number.POSITIVE_INFINITY);
        await writeCheckpoint(file.path, end, { assertHeld });
        this.#checkpointBytes = end.bytes;
      } catch (cause) {
        if (this.#writer.failure !== undefined) return;
        publishWarning("Cannot write the checkpoint; no plant is at risk", cause);
      }
    });
    return this.#checking;
  }

  /** Finishes what was accepted, then unlocks the directory. May be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    clock.clearInterval(this.#interval);
    await Promise.allSettled(this.#reading);
    await this.#writer.drain();
    await this.#check();
    const { file, lock } = this.#log;
    await file.close().finally(() => lock.close());
  }

  #assertUsable(): void {
    if (this.#closing !== undefined) throw new PlantStoreError("closed", "The store is closed");
    if (this.#writer.failure !== undefined) throw this.#writer.failure;
  }
}

/** @throws PlantStoreError `conflict` unless the plants are equal. */
function assertRepeat(stored: NewPlant, repeated: NewPlant): CreateOutcome {
  if (isSamePlant(stored, repeated)) return "replayed";
  throw conflict(repeated.id);
}
