/**
 * The plant store: an append-only log and an index of it in memory.
 *
 * Invariants. The first record of an id is never replaced. A record enters the index only after it
 * is durable, and `get` and `list` see only the records of the index. Of several creates of one id in
 * flight one writes, and the others share its outcome: an earlier answer would acknowledge a plant that
 * is not durable. One process at a time has a data directory open for writing.
 */
import { PlantStoreError } from "../core/errors.ts";
import { assertInt64 } from "../core/json.ts";
import { assertNumber, readNumber } from "../core/options.ts";
import {
  conflict,
  encodeNewPlant,
  isSamePlant,
  type NewPlant,
  parseNewPlant,
  unknownCursor,
  validateNewPlant,
} from "../core/plant.ts";
import type { CreateOutcome, ListOptions, PlantService, StoreStatus } from "../core/services.ts";
import { ShortLivedMap } from "../core/short-lived-map.ts";
import { Checkpointer } from "../log/checkpoint.ts";
import { LogWriter, type LogWriterOptions } from "../log/writer.ts";
import { assertRoom } from "./id-index.ts";
import { PlantLookups } from "./lookups.ts";
import { listLines, parseLines } from "./records.ts";
import { type OpenedLog, openLog } from "./start.ts";

export interface PlantStoreOptions {
  /** The command that the error of another process names as the holder. Default: `library`. */
  readonly command?: string;
  /** A batch takes records until it holds this many bytes. Default and maximum: 1 MiB. */
  readonly batchBytesMax?: number;
  /** Upper bound on bytes of records that wait for the disk. Default: 4 to 64 MiB, by the memory there is. */
  readonly queueBytesMax?: number | undefined;
  /** Receives how much of the log was read, about once a MiB; an error it throws aborts the opening. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

/**
 * A durable store of plants in a data directory, to which only this process writes while it is open.
 * `PlantService` describes its methods; a list takes memory for one block of the log.
 */
export class PlantStore implements PlantService {
  /**
   * Resolves, never rejects, when the store has failed for good: a sync failed, or the log was
   * removed or changed. Every call is refused from then on. To continue with the plants on disk, open
   * the directory again, best in a new process.
   */
  readonly failed: Promise<PlantStoreError>;

  readonly #log: OpenedLog;
  readonly #writer: LogWriter;
  readonly #lookups: PlantLookups;
  readonly #checkpointer: Checkpointer;
  /** Creates in flight, by their ids: what each resolves with. */
  readonly #storing = new ShortLivedMap<bigint, Promise<NewPlant>>();
  /** Reads under way, for which a close waits. */
  readonly #reads = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor(log: OpenedLog, limits: Limits) {
    const { lock, file, end, checkpoint } = log;
    const isHeld = () => lock.findLoss() === undefined;
    const checkpointer = new Checkpointer(file.path, end, checkpoint, isHeld);
    this.#log = log;
    this.#checkpointer = checkpointer;
    this.#writer = new LogWriter(file, {
      ...limits,
      end,
      onDurable: (durable, lines) => {
        checkpointer.note(durable);
        this.#lookups.recent.add(lines, durable.bytes);
      },
    });
    this.#lookups = new PlantLookups(file, this.#writer);
    this.failed = this.#writer.failed;
    void lock.lost.then((cause) => this.#writer.fail(cause));
  }

  /**
   * Opens a data directory, makes it if it is missing, and recovers its log.
   *
   * @throws PlantStoreError `locked` if another process has it, `corruption` if a person has to look
   * at the log, `unsynced` if the disk does not sync the log, `io_error` if the system refuses.
   * @throws RangeError, before anything is changed, for a number out of its range (`NUMBER_OPTIONS`).
   */
  static async open(directory: string, options: PlantStoreOptions = {}): Promise<PlantStore> {
    const { command = "library", onProgress, queueBytesMax } = options;
    if (queueBytesMax !== undefined) assertNumber("queueBytesMax", queueBytesMax);
    const limits: Limits = { batchBytesMax: readNumber(options, "batchBytesMax"), queueBytesMax };
    let store: PlantStore | undefined;
    const durableBytes = () => store?.status().logBytes;
    store = new PlantStore(await openLog(directory, { command, onProgress, durableBytes }), limits);
    return store;
  }

  /** How many plants there are. */
  get size(): number {
    return this.#log.index.size;
  }

  /** For the operator. */
  status(): StoreStatus {
    return {
      plants: this.size,
      logBytes: this.#writer.durableBytes,
      queueBytes: this.#writer.queuedBytes,
      checkpointBytes: this.#checkpointer.writtenBytes,
      refusedMsAgo: this.#writer.refusedMsAgo,
    };
  }

  async create(given: NewPlant): Promise<CreateOutcome> {
    const plant = validateNewPlant(given);
    this.#assertUsable();
    const inFlight = this.#storing.get(plant.id);
    if (inFlight !== undefined) return judgeRepeat(await inFlight, plant);
    const storing = this.#store(plant);
    this.#storing.add(plant.id, storing);
    try {
      const stored = await storing;
      return stored === plant ? "created" : judgeRepeat(stored, plant);
    } finally {
      this.#storing.delete(plant.id);
    }
  }

  /**
   * Makes a plant durable unless its id is taken. Resolves with the plant that has the id: the same
   * object if it was stored now, else the plant that was there before.
   */
  async #store(plant: NewPlant): Promise<NewPlant> {
    const record = encodeNewPlant(plant);
    const taken = this.#log.index.get(plant.id);
    if (taken !== undefined) {
      const line = await this.#read(plant.id, taken).catch(throwUndecided);
      // Equal text is a repeat, and costs less than two plants that are compared. A copy: the same object
      // means that it was created.
      return line.toString() === record ? { ...plant } : parseNewPlant(line);
    }
    assertRoom(this.#writer.durableBytes, this.#log.index.size);
    const offset = await this.#writer.append(record);
    try {
      this.#log.index.add(plant.id, offset);
    } catch (cause) {
      throw this.#writer.fail(cause); // without memory for the index, the id could be stored once more
    }
    return plant;
  }

  async get(id: bigint): Promise<NewPlant | undefined> {
    const line = await this.getLine(id);
    return line && parseNewPlant(line);
  }

  async getLine(id: bigint): Promise<Buffer | undefined> {
    assertInt64(id);
    this.#assertUsable();
    const offset = this.#log.index.get(id);
    return offset === undefined ? undefined : this.#read(id, offset);
  }

  /** @throws PlantStoreError as `PlantLookups.judge` returns it. */
  async #read(id: bigint, offset: number): Promise<Buffer> {
    const reading = this.#lookups.read(id, offset);
    this.#reads.add(reading);
    try {
      return await reading;
    } finally {
      this.#reads.delete(reading);
    }
  }

  list(options?: ListOptions): AsyncGenerator<NewPlant> {
    return parseLines(this.listLines(options), (cause) => this.#lookups.judge(cause));
  }

  async *listLines(options?: ListOptions): AsyncGenerator<Buffer> {
    // With yield* an error that a reader throws would seem to come from the log.
    for await (const lines of this.#list(options)) yield lines;
  }

  async *#list({ after }: ListOptions = {}): AsyncGenerator<Buffer> {
    if (after !== undefined) assertInt64(after);
    this.#assertUsable();
    const start = after === undefined ? 0 : this.#log.index.get(after);
    if (start === undefined) throw unknownCursor(after);
    try {
      const range = { start, end: this.#writer.durableBytes, after };
      yield* listLines(this.#lookups.source, this.#log.index, range);
    } catch (cause) {
      this.#assertUsable(); // a file that was closed meanwhile is no failure of its own
      throw this.#lookups.judge(cause);
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
    // Also if the log was removed: the next start has to know that there was one.
    await this.#checkpointer.close();
    const { file, lock } = this.#log;
    await file.close().finally(() => lock.close());
  }

  #assertUsable(): void {
    if (this.#closing !== undefined) {
      throw new PlantStoreError("closed", "Cannot use the store: it is closed");
    }
    if (this.#writer.failure !== undefined) throw this.#writer.failure;
  }
}

type Limits = Pick<LogWriterOptions, "batchBytesMax" | "queueBytesMax">;

function judgeRepeat(stored: NewPlant, repeated: NewPlant): CreateOutcome {
  if (isSamePlant(stored, repeated)) return "replayed";
  throw conflict(repeated.id);
}

/** For a create whose id is taken: whether it is a repeat or a conflict is not known. */
function throwUndecided(error: unknown): never {
  if (!(error instanceof PlantStoreError) || error.code !== "read_failed") throw error;
  throw new PlantStoreError(
    "write_failed",
    "Cannot read the stored plant with this id now; " +
      "the outcome is unknown: send the identical request again",
    { cause: error.cause },
  );
}
