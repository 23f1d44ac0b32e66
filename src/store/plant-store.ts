/**
 * The plant store: an append-only log and an index of it in memory.
 *
 * Invariants. The first record of an id is never replaced. A record enters the index only after it
 * is durable, and `get` and `list` see only the records of the index. Of several creates of one id in
 * flight one writes, and the others share its outcome (core/creates-in-flight). One process at a
 * time has a data directory open for writing.
 */
import { type CreateMessage, creates, publishWarning } from "../core/channels.ts";
import { CreatesInFlight } from "../core/creates-in-flight.ts";
import { PlantStoreError } from "../core/errors.ts";
import { LOCK_NAME } from "../core/file-names.ts";
import { Gate } from "../core/gate.ts";
import { assertInt64 } from "../core/int64.ts";
import { assertFunction, assertText, readNumber } from "../core/options.ts";
import { encodeNewPlant, type NewPlant, parseNewPlant, validateNewPlant } from "../core/plant.ts";
import type { CreateOutcome, ListOptions, PlantService, StoreStatus } from "../core/services.ts";
import { Checkpointer } from "../log/checkpoint.ts";
import type { LogFile } from "../log/file.ts";
import { ensureDirectory, unpromisedFileSystem } from "../log/folder.ts";
import { DirectoryLock } from "../log/lock.ts";
import { readLineAt } from "../log/reader.ts";
import { describeSystemError } from "../log/system-error.ts";
import { LogWriter } from "../log/writer.ts";
import { type IdIndex, OFFSET_LIMIT } from "./id-index.ts";
import { type OpenedLog, openLog } from "./open-log.ts";
import { type ListBlocks, listLines, listPlants, unknownCursor } from "./plant-list.ts";

export interface PlantStoreOptions {
  /** The command that the error of another process names as the holder. Default: `library`. */
  readonly command?: string;
  /** A batch takes records until it holds this many bytes. Default, and most: 1 MiB. */
  readonly batchBytesMax?: number;
  /** Upper bound on bytes of records that wait for the disk. Default: 64 MiB. */
  readonly queueBytesMax?: number;
  /** Receives how much of the log is read, about once a MiB; an error it throws aborts the opening. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

/** What creates in flight add still fits into an index (`OFFSET_LIMIT`). */
const LOG_BYTES_MAX = OFFSET_LIMIT - 2 ** 32;
const PLANTS_MAX = 2 ** 31;

/**
 * Plants that are read at once, in all stores of the process: a short create of a taken id may have
 * a long one read, and they use the four threads that the log's writes need, too.
 */
const readGate = new Gate(8);

/**
 * A durable store of plants in a data directory, which this process alone writes while it is open.
 * Its methods are those of the port `PlantService`; a list takes memory for one block of the log.
 */
export class PlantStore implements PlantService {
  /**
   * Resolves, never rejects, when the store has failed for good: a sync failed, or the log was taken
   * away or changed. Every call is refused from then on; open the directory again, best in a new
   * process, to go on from what is on disk.
   */
  readonly failed: Promise<PlantStoreError>;

  readonly #file: LogFile;
  readonly #index: IdIndex;
  readonly #writer: LogWriter;
  readonly #checkpointer: Checkpointer;
  readonly #lock: DirectoryLock;
  readonly #creates = new CreatesInFlight((plant) => this.#store(plant));
  /** Reads under way, which a close waits for. */
  readonly #reads = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor({ file, index, end, checkpoint }: OpenedLog, parts: StoreParts) {
    this.#file = file;
    this.#index = index;
    this.#lock = parts.lock;
    const checkpointer = new Checkpointer(file.path, end, checkpoint);
    this.#checkpointer = checkpointer;
    this.#writer = new LogWriter(file, {
      batchBytesMax: parts.batchBytesMax,
      queueBytesMax: parts.queueBytesMax,
      end,
      onDurable: (durable) => checkpointer.note(durable),
    });
    this.failed = this.#writer.failed;
    void this.#lock.lost.then((cause) => {
      checkpointer.abandon();
      this.#writer.fail(cause);
    });
  }

  /**
   * Opens a data directory, makes it if it is missing, and recovers its log.
   *
   * @throws PlantStoreError `locked` if another process has it, `corruption` if a person has to look
   * at the log, `io_error` if the system refuses.
   * @throws TypeError or RangeError, before anything is touched, for an option of the wrong type or
   * out of its range (`NUMBER_OPTIONS`).
   */
  static async open(directory: string, options: PlantStoreOptions = {}): Promise<PlantStore> {
    assertText("directory", directory);
    const { command = "library", onProgress } = options;
    assertText("command", command);
    assertFunction("onProgress", onProgress);
    const batchBytesMax = readNumber(options, "batchBytesMax");
    const queueBytesMax = readNumber(options, "queueBytesMax");
    await prepareDirectory(directory);
    let store: PlantStore | undefined;
    const lock = await DirectoryLock.acquire(directory, {
      name: LOCK_NAME,
      command,
      durableBytes: () => store?.status().logBytes,
    });
    try {
      const log = await openLog(directory, onProgress);
      store = new PlantStore(log, { lock, batchBytesMax, queueBytesMax });
      return store;
    } catch (error) {
      await lock.close();
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

  /** Makes a plant durable unless its id is taken; returns the plant that has the id. */
  async #store(plant: NewPlant): Promise<NewPlant> {
    const taken = this.#index.get(plant.id);
    if (taken !== undefined) return this.#readTaken(plant.id, taken);
    checkRoom(this.#writer.durableBytes, this.size);
    const offset = await this.#writer.append(encodeNewPlant(plant));
    this.#index.add(plant.id, offset);
    // Here a subscriber's AsyncLocalStorage holds what the caller's does.
    if (creates.hasSubscribers) publishCreate(this.#file.path, plant, offset);
    return plant;
  }

  /** A replay acknowledges what is in the log, as an append does: so the log must be in its place. */
  async #readTaken(id: bigint, offset: number): Promise<NewPlant> {
    const plant = await this.#readPlant(id, offset);
    if (this.#writer.failure !== undefined) throw this.#writer.failure;
    const displacement = this.#file.displacement();
    if (displacement !== undefined) throw this.#fail(displacement);
    return plant;
  }

  async get(id: bigint): Promise<NewPlant | undefined> {
    assertInt64(id);
    this.#assertUsable();
    const offset = this.#index.get(id);
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
    const start = after === undefined ? 0 : this.#index.get(after);
    if (start === undefined) throw unknownCursor(after);
    const end = this.#writer.durableBytes;
    try {
      yield* list(this.#file, this.#index, { start, end, after });
    } catch (cause) {
      this.#assertUsable(); // a file that was closed meanwhile is no failure of its own
      throw this.#writer.fail(cause);
    }
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
    while (this.#reads.size > 0) await Promise.allSettled(this.#reads);
    await this.#writer.drain();
    // Also if the log was taken away: the next start has to know that there was one.
    await this.#checkpointer.close();
    await this.#file.close().finally(() => this.#lock.close());
  }

  /**
   * The plant at an offset that the index has.
   *
   * @throws PlantStoreError `store_failed` if it is not there any more: the file was changed.
   */
  async #readPlant(id: bigint, offset: number): Promise<NewPlant> {
    const end = this.#writer.durableBytes;
    const reading = readGate.pass(async () => {
      return parseNewPlant(await readLineAt(this.#file, offset, end));
    });
    this.#reads.add(reading);
    try {
      const plant = await reading;
      if (plant.id === id) return plant;
      throw new Error(`the record at byte offset ${offset} has the id ${plant.id}, not ${id}`);
    } catch (cause) {
      const why = describeSystemError(cause);
      throw this.#fail(`no longer holds the plant stored at byte offset ${offset}: ${why}`, cause);
    } finally {
      this.#reads.delete(reading);
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
  readonly lock: DirectoryLock;
  readonly batchBytesMax: number;
  readonly queueBytesMax: number;
}

/** Publishes a new plant that has just become durable. */
function publishCreate(log: string, plant: NewPlant, offset: number): void {
  const { id, name, tag } = plant;
  const bytes = Buffer.byteLength(encodeNewPlant(plant)) + 1; // and its line feed
  creates.publish({ log, id, name, tag, offset, bytes } satisfies CreateMessage);
}

/** @throws PlantStoreError `not_stored` if there is no room for another plant. @internal */
export function checkRoom(logBytes: number, plants: number): void {
  if (logBytes < LOG_BYTES_MAX && plants < PLANTS_MAX) return;
  throw new PlantStoreError(
    "not_stored",
    "Cannot store it: the log is full (it has reached its greatest length or number of plants); " +
      "nothing was stored, and no retry will succeed",
  );
}

/** Makes a directory if it is missing, and warns of what its place does not promise. */
async function prepareDirectory(directory: string): Promise<void> {
  const { isOpenToOthers } = await ensureDirectory(directory);
  if (isOpenToOthers) {
    publishWarning(`"${directory}" is open to other users; close it: chmod 700 "${directory}"`);
  }
  const kind = unpromisedFileSystem(directory);
  if (kind === undefined) return;
  publishWarning(
    `"${directory}" is on a ${kind} file system: neither that one process at a time writes there, ` +
      "nor that what was answered 200 survives a power cut, is promised; " +
      "use a local file system, such as ext4 or XFS",
  );
}
