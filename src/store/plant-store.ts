/**
 * The plant store: an append-only log and an index of it in memory.
 *
 * Invariants. The first record of an id stands for ever. A record enters the
 * index only after it is durable, and `get` and `list` see only the index's
 * records. Of several creates of one id in flight, one writes and the others
 * wait for its outcome: any earlier answer would say "stored" about a plant
 * that is not. One process at a time has a data directory open for writing.
 */

import path from "node:path";
import { creates, publishWarning } from "../core/channels.ts";
import { CreatesInFlight } from "../core/creates-in-flight.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME, LOG_NAME } from "../core/file-names.ts";
import { assertInt64 } from "../core/int64.ts";
import { assertText } from "../core/options.ts";
import { encodeNewPlant, type NewPlant, validateNewPlant } from "../core/plant.ts";
import type { CreateOutcome, ListOptions, PlantService, StoreStatus } from "../core/services.ts";
import { Checkpointer, newCheckpointPath, readCheckpoint } from "../log/checkpoint.ts";
import type { LogFile } from "../log/file.ts";
import { ensureDirectory, removeLeftover, unpromisedFileSystem } from "../log/folder.ts";
import { DirectoryLock } from "../log/lock.ts";
import { describeSystemError } from "../log/system-error.ts";
import { LogWriter } from "../log/writer.ts";
import { requireRoom } from "./capacity.ts";
import type { IdIndex } from "./id-index.ts";
import { type ListBlocks, listLines, listPlants, unknownCursor } from "./plant-list.ts";
import { type PlantStoreOptions, readOptions } from "./plant-store-options.ts";
import { Reads } from "./reads.ts";
import { publishCreate, readPlantAt } from "./record.ts";
import { openLog, type RecoveredLog, recover } from "./recover.ts";
import { repairedPath } from "./repair.ts";
import { Settling } from "./settling.ts";

/**
 * A durable store of plants in a data directory, which this process alone
 * writes while it is open. Its methods are those of the port `PlantService`; a
 * list takes memory for a block of the log, however long the log is.
 */
export class PlantStore implements PlantService {
  /**
   * Settles, never rejects, when the store has failed for good: a sync failed,
   * or the log was taken away or changed. Every call is refused from then on; open the
   * directory again, best in a new process, to go on from what is on disk.
   */
  readonly failed: Promise<PlantStoreError>;

  readonly #file: LogFile;
  readonly #index: IdIndex;
  readonly #writer: LogWriter;
  readonly #checkpointer: Checkpointer;
  readonly #lock: DirectoryLock;
  readonly #creates = new CreatesInFlight((plant) => this.#store(plant));
  readonly #reads = new Reads();
  /** Present while the end of the log waits for room to be put aside. */
  #settling: Settling | undefined;
  #closing: Promise<void> | undefined;

  private constructor(parts: StoreParts) {
    this.#file = parts.file;
    this.#index = parts.log.index;
    this.#writer = parts.writer;
    this.#checkpointer = parts.checkpointer;
    this.#lock = parts.lock;
    this.#settling = parts.log.settle && new Settling(parts.log.settle);
    this.failed = parts.writer.failed;
    void this.#lock.lost.then((cause) => {
      this.#checkpointer.abandon();
      this.#writer.fail(cause);
    });
  }

  /**
   * Opens a data directory, making it if it is missing, and recovers its log.
   *
   * @throws PlantStoreError `locked` when another process has it, `corruption`
   * when a person has to look at the log, `io_error` when the system refuses.
   * @throws TypeError or RangeError, before anything is touched, for an option
   * of the wrong type or out of its range (`NUMBER_OPTIONS`).
   */
  static async open(directory: string, options: PlantStoreOptions = {}): Promise<PlantStore> {
    assertText("directory", directory);
    const { command, onProgress, batchBytesMax, queueBytesMax } = readOptions(options);
    const { isOpenToOthers } = await ensureDirectory(directory);
    if (isOpenToOthers) {
      publishWarning(`"${directory}" is open to other users; close it: chmod 700 "${directory}"`);
    }
    warnOfFileSystem(directory);
    let file: LogFile | undefined;
    let writer: LogWriter | undefined;
    const lock = await DirectoryLock.acquire(directory, {
      name: LOCK_NAME,
      command,
      durableBytes: () => writer?.durableBytes,
    });
    try {
      const logPath = path.join(path.resolve(directory), LOG_NAME);
      const checkpoint = await readCheckpoint(logPath);
      file = await openLog(logPath, checkpoint);
      const log = await recover(file, { checkpoint, onProgress });
      if (log.end.bytes > 0) removeLeftovers(logPath);
      const checkpointer = new Checkpointer(logPath, log.end, checkpoint);
      writer = new LogWriter(file, {
        batchBytesMax,
        queueBytesMax,
        end: log.end,
        onDurable: (end) => checkpointer.note(end),
      });
      return new PlantStore({ file, log, writer, checkpointer, lock });
    } catch (error) {
      await closeBoth(file, lock);
      throw error;
    }
  }

  /** How many plants there are. */
  get size(): number {
    return this.#index.size;
  }

  /** For the operator. */
  status(): StoreStatus {
    return {
      plants: this.size,
      logBytes: this.#writer.durableBytes,
      queueBytes: this.#writer.queuedBytes,
      checkpointBytes: this.#checkpointer.writtenBytes,
    };
  }

  async create(given: NewPlant): Promise<CreateOutcome> {
    const plant = validateNewPlant(given);
    this.#assertUsable();
    return this.#creates.create(plant);
  }

  /** Makes a plant durable, unless its id is taken: then resolves with the plant that has it. */
  async #store(plant: NewPlant): Promise<NewPlant> {
    const taken = this.#findOffset(plant.id);
    if (taken !== undefined) return this.#readVouched(plant.id, taken);
    if (this.#settling !== undefined) {
      await this.#settle(this.#settling);
      return this.#store(plant); // what was settled may hold this very id
    }
    requireRoom(this.#writer.durableBytes, this.size);
    const offset = await this.#writer.append(encodeNewPlant(plant));
    this.#index.add(plant.id, offset);
    // Here a subscriber's AsyncLocalStorage holds what the caller's does.
    if (creates.hasSubscribers) publishCreate(this.#file.path, plant, offset);
    return plant;
  }

  /** A replay vouches for the log as much as an append does, once it has waited to be read. */
  async #readVouched(id: bigint, offset: number): Promise<NewPlant> {
    const plant = await this.#readPlant(id, offset);
    if (this.#writer.failure !== undefined) throw this.#writer.failure;
    const displacement = this.#file.displacement();
    if (displacement !== undefined) throw this.#fail(displacement);
    return plant;
  }

  async get(id: bigint): Promise<NewPlant | undefined> {
    assertInt64(id);
    this.#assertUsable();
    const offset = this.#findOffset(id);
    return offset === undefined ? undefined : this.#readPlant(id, offset);
  }

  async *list(options?: ListOptions): AsyncGenerator<NewPlant> {
    for await (const plants of this.#list(listPlants, options)) {
      for (const plant of plants) yield plant; // yield* takes three times as long
    }
  }

  async *listLines(options?: ListOptions): AsyncGenerator<Buffer> {
    // With yield* what a reader throws would seem to come from the log.
    for await (const lines of this.#list(listLines, options)) yield lines;
  }

  /** @throws PlantStoreError `store_failed`, as `#readPlant` does. */
  async *#list<T>(list: ListBlocks<T>, { after }: ListOptions = {}): AsyncGenerator<T> {
    if (after !== undefined) assertInt64(after);
    this.#assertUsable();
    const start = after === undefined ? 0 : this.#findOffset(after);
    if (start === undefined) throw unknownCursor(after);
    const end = this.#writer.durableBytes;
    try {
      yield* list(this.#file, this.#index, { start, end, after });
    } catch (cause) {
      this.#assertUsable(); // a file that was closed meanwhile is no failure of its own
      throw this.#writer.fail(cause);
    }
  }

  /** Finishes what was accepted, then gives the directory free. May be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await this.#reads.end();
    await this.#writer.drain();
    await this.#settling?.drain();
    // Also if the log was taken away: the next start has to know that there was one.
    await this.#checkpointer.close();
    await closeBoth(this.#file, this.#lock);
  }

  async #settle(settling: Settling): Promise<void> {
    const end = await settling.attempt().catch((error: PlantStoreError) => {
      throw error.code === "locked" ? this.#writer.fail(error) : error;
    });
    if (this.#settling !== settling) return; // another create has been here
    this.#settling = undefined;
    this.#writer.resume(end);
    this.#checkpointer.note(end);
  }

  /** Where the record of an id stands; while the log is being settled the index runs ahead of it. */
  #findOffset(id: bigint): number | undefined {
    const offset = this.#index.get(id);
    return offset !== undefined && offset < this.#writer.durableBytes ? offset : undefined;
  }

  /**
   * The plant the index knows at this offset.
   *
   * @throws PlantStoreError `store_failed` when it is not there any more: what
   * is on disk was changed, and nothing can be vouched for.
   */
  async #readPlant(id: bigint, offset: number): Promise<NewPlant> {
    try {
      const plant = await this.#reads.hold(
        readPlantAt(this.#file, offset, this.#writer.durableBytes),
      );
      if (plant.id === id) return plant;
      throw new Error(`the record at byte offset ${offset} has the id ${plant.id}, not ${id}`);
    } catch (cause) {
      const why = describeSystemError(cause);
      throw this.#fail(`no longer holds the plant stored at byte offset ${offset}: ${why}`, cause);
    }
  }

  /** Fails for good, because of what is wrong with the log. */
  #fail(fault: string, cause?: unknown): PlantStoreError {
    return this.#writer.fail(new Error(`"${this.#file.path}" ${fault}`, { cause }));
  }

  #assertUsable(): void {
    if (this.#closing !== undefined) {
      throw new PlantStoreError("closed", "Cannot use the store: it is closed");
    }
    if (this.#writer.failure !== undefined) throw this.#writer.failure;
  }
}

interface StoreParts {
  readonly file: LogFile;
  readonly log: RecoveredLog;
  readonly writer: LogWriter;
  readonly checkpointer: Checkpointer;
  readonly lock: DirectoryLock;
}

function warnOfFileSystem(directory: string): void {
  const kind = unpromisedFileSystem(directory);
  if (kind === undefined) return;
  publishWarning(
    `"${directory}" is on a ${kind} file system: neither that one process at a time writes there, ` +
      "nor that what was answered 200 survives a power cut, is promised; " +
      "use a local file system, such as ext4 or XFS",
  );
}

/**
 * Removes what a killed process left unfinished beside a log that holds something: the log was
 * found good, and no other process writes here.
 */
function removeLeftovers(logPath: string): void {
  removeLeftover(repairedPath(logPath));
  removeLeftover(newCheckpointPath(logPath));
}

/** The directory goes free also where the system cannot close the log. */
async function closeBoth(file: LogFile | undefined, lock: DirectoryLock): Promise<void> {
  await (file?.close() ?? Promise.resolve()).finally(() => lock.close());
}
