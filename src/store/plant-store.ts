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
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { assertNewPlant, encodeNewPlant, isSamePlant, type NewPlant } from "../core/plant.ts";
import type { CreateOutcome, PlantService } from "../core/services.ts";
import { ensureDirectory, LogFile } from "../log/file.ts";
import { DirectoryLock } from "../log/lock.ts";
import { LOG_START, readBlocks, visitLines } from "../log/reader.ts";
import { BATCH_BYTES_LIMIT } from "../log/recovery.ts";
import { LogWriter } from "../log/writer.ts";
import type { IdIndex } from "./id-index.ts";
import { decodeRecord, readPlantAt } from "./record.ts";
import { recover } from "./recover.ts";

/** The name of the log in a data directory. */
export const LOG_NAME = "plants.jsonl";
/** The name of the directory lock; see log/lock. */
export const LOCK_NAME = "lock";

export interface PlantStoreOptions {
  /** What this process does, named to whoever finds the directory locked. Default: `library`. */
  readonly command?: string;
  /** A batch takes records until it holds this many bytes; 1 to 1,048,576, the default. */
  readonly batchBytesMax?: number;
  /** More bytes of records than this never wait for the disk. Default: 64 MiB. */
  readonly queueBytesMax?: number;
}

interface InFlight {
  readonly plant: NewPlant;
  readonly durable: Promise<unknown>;
}

export class PlantStore implements PlantService {
  /**
   * Settles, never rejects, when the store has failed for good: a sync failed,
   * or the log was taken away. Every call is refused from then on; open the
   * directory again, best in a new process, to go on from what is on disk.
   */
  readonly failed: Promise<PlantStoreError>;

  readonly #file: LogFile;
  readonly #index: IdIndex;
  readonly #writer: LogWriter;
  readonly #lock: DirectoryLock;
  readonly #inFlight = new Map<bigint, InFlight>();
  #closing: Promise<void> | undefined;

  private constructor(parts: {
    file: LogFile;
    index: IdIndex;
    writer: LogWriter;
    lock: DirectoryLock;
  }) {
    this.#file = parts.file;
    this.#index = parts.index;
    this.#writer = parts.writer;
    this.#lock = parts.lock;
    this.failed = parts.writer.failed;
  }

  /**
   * Opens a data directory, making it if it is missing, and recovers its log.
   *
   * @throws PlantStoreError `locked` when another process has it, `corruption`
   * when a person has to look at the log, `io_error` when the system refuses.
   * @throws RangeError for an option out of its range.
   */
  static async open(directory: string, options: PlantStoreOptions = {}): Promise<PlantStore> {
    const batchBytesMax = options.batchBytesMax ?? BATCH_BYTES_LIMIT;
    if (!(batchBytesMax >= 1 && batchBytesMax <= BATCH_BYTES_LIMIT)) {
      throw new RangeError(
        `batchBytesMax: expected 1 to ${BATCH_BYTES_LIMIT}, got ${batchBytesMax}`,
      );
    }
    const { isOpenToOthers } = await ensureDirectory(directory);
    if (isOpenToOthers) {
      publishWarning(`"${directory}" is open to other users; close it: chmod 700 "${directory}"`);
    }
    let writer: LogWriter | undefined;
    const lock = await DirectoryLock.acquire(directory, {
      name: LOCK_NAME,
      command: options.command ?? "library",
      durableBytes: () => writer?.durableBytes,
    });
    try {
      const file = await LogFile.open(path.join(path.resolve(directory), LOG_NAME));
      const { index, durableBytes } = await recover(file);
      const queueBytesMax = options.queueBytesMax ?? 64 * 1024 * 1024;
      writer = new LogWriter(file, { batchBytesMax, queueBytesMax, durableBytes });
      return new PlantStore({ file, index, writer, lock });
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** How many plants there are. */
  get size(): number {
    return this.#index.size;
  }

  async create(plant: NewPlant): Promise<CreateOutcome> {
    assertNewPlant(plant);
    this.#assertUsable();
    const inFlight = this.#inFlight.get(plant.id);
    if (inFlight !== undefined) {
      await inFlight.durable;
      return judgeRepeat(inFlight.plant, plant);
    }
    const offset = this.#index.get(plant.id);
    if (offset !== undefined) return judgeRepeat(await this.#readPlant(offset), plant);
    await this.#append(plant);
    return "created";
  }

  async get(id: bigint): Promise<NewPlant | undefined> {
    this.#assertUsable();
    const offset = this.#index.get(id);
    return offset === undefined ? undefined : this.#readPlant(offset);
  }

  async *list(): AsyncGenerator<NewPlant> {
    this.#assertUsable();
    for await (const block of readBlocks(this.#file, LOG_START, this.#writer.durableBytes)) {
      const plants: NewPlant[] = [];
      visitLines(block, (record, position) => {
        const plant = decodeRecord(record, this.#file.path, position);
        // A line that an editor doubled is listed once.
        if (this.#index.get(plant.id) === position.offset) plants.push(plant);
      });
      yield* plants;
    }
  }

  /** Finishes what was accepted, then gives the directory free. May be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#writer.drain();
    await this.#file.close();
    await this.#lock.release();
  }

  async #append(plant: NewPlant): Promise<void> {
    const durable = this.#writer.append(encodeNewPlant(plant));
    this.#inFlight.set(plant.id, { plant, durable });
    try {
      const offset = await durable;
      this.#index.add(plant.id, offset);
    } finally {
      this.#inFlight.delete(plant.id);
    }
  }

  #readPlant(offset: number): Promise<NewPlant> {
    return readPlantAt(this.#file, offset, this.#writer.durableBytes);
  }

  #assertUsable(): void {
    if (this.#closing !== undefined) {
      throw new PlantStoreError("closed", "Cannot use the store: it is closed");
    }
    if (this.#writer.failure !== undefined) throw this.#writer.failure;
  }
}

/** The answer to a create of an id that is taken. */
function judgeRepeat(stored: NewPlant, repeated: NewPlant): CreateOutcome {
  if (isSamePlant(stored, repeated)) return "replayed";
  throw new PlantStoreError(
    "conflict",
    `Cannot create plant ${repeated.id}: the id belongs to a plant with another name or tag`,
  );
}
