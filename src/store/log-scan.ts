/**
 * One pass over the lines of a log: it judges every line, adds every plant to an index, and
 * computes the checksum of all bytes.
 *
 * A start, `verify`, `repair` and `backup` look at a log through this file, so what makes a line
 * good is decided here alone. What to do about a bad line is not known here. An id may occur twice
 * with the same content (an editor's doing).
 */
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { isSamePlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import { type Checkpoint, EMPTY_LOG, extendCheckpoint } from "../log/checkpoint.ts";
import type { LogFile } from "../log/file.ts";
import type { LinePosition } from "../log/format.ts";
import {
  estimateLines,
  type LineBlock,
  positionAfter,
  readBlocks,
  readLineAt,
  readTail,
} from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import { IdIndex } from "./id-index.ts";
import { IdLoader } from "./id-loader.ts";
import { checkLines, type PlantTaker } from "./plant-lines.ts";

export type { LinePosition };

/** A line that is not the first record of its id. */
export interface LineFault {
  /**
   * `repeat`: the same plant again. `conflict`: its id with other content. `mendable`: unreadable,
   * because its batch lost pages in a power cut; the next start moves it to quarantine.
   */
  readonly kind: "unreadable" | "mendable" | "repeat" | "conflict";
  readonly position: LinePosition;
  /** The length of the line, with its line feed. */
  readonly bytes: number;
  /** What was expected and what came. */
  readonly reason: string;
}

/** @internal */
export interface ScanOptions {
  /** Receives every fault, in the order of their places. What it throws ends the scan. */
  readonly onFault: (fault: LineFault) => void;
  /** Whether an unreadable line lost pages in a power cut. Default: none did. */
  readonly isLost?: (line: Buffer, position: LinePosition) => boolean;
  /** The last checkpoint of the log. */
  readonly checkpoint?: Checkpoint | undefined;
  /** Receives how many bytes were read, and of how many, about once a MiB. */
  readonly onProgress?: ((bytes: number, total: number) => void) | undefined;
}

const LOST_PAGES =
  "lost pages in a power cut, so it was never acknowledged; the next start puts it aside by itself";

/** @internal */
export class LogScan {
  readonly #file: LogFile;
  readonly #options: ScanOptions;
  #index = new IdIndex();
  /** Made by the first run, which knows how large to make the index. */
  #loader: IdLoader | undefined;
  #end = EMPTY_LOG;
  #matchesCheckpoint: boolean;

  constructor(file: LogFile, options: ScanOptions) {
    this.#file = file;
    this.#options = options;
    const { checkpoint = EMPTY_LOG } = options;
    this.#matchesCheckpoint =
      checkpoint.bytes === EMPTY_LOG.bytes && checkpoint.crc32 === EMPTY_LOG.crc32;
  }

  /** The ids of what was scanned; the same object from the end of the first run on. */
  get index(): IdIndex {
    return this.#index;
  }

  /**
   * What was scanned so far, as the checkpoint of a log that ends there. A line that lost pages
   * counts as the spaces that a start overwrites it with.
   */
  get end(): Checkpoint {
    return this.#end;
  }

  /** Whether the bytes up to the checkpoint's length were seen and have its checksum. */
  get matchesCheckpoint(): boolean {
    return this.#matchesCheckpoint;
  }

  /** Scans the whole lines between two places; returns where they end. */
  async run(start: LinePosition, end: number): Promise<LinePosition> {
    this.#loader ??= await this.#makeLoader(end);
    const loader = this.#loader;
    let reached = start;
    try {
      for await (const block of readBlocks(this.#file, start, end, { isLent: true })) {
        const unreadable = this.#takeBlock(block, loader);
        reached = positionAfter(block);
        if (unreadable.length > 0 || loader.hasRepeats) await this.#report(unreadable, loader);
        this.#options.onProgress?.(reached.offset, end);
      }
    } catch (error) {
      const isUnreadableFile = error instanceof PlantStoreError && error.code === "io_error";
      if (isUnreadableFile) await this.#report([], loader); // what was read before
      throw error;
    }
    await this.#report([], loader);
    return reached;
  }

  /**
   * Judges what follows the last line feed, without adding it to the index.
   *
   * @returns whether it is a new plant, which a start completes.
   */
  async inspectTail(tail: LinePosition): Promise<boolean> {
    const rest = await readTail(this.#file, tail.offset, this.#file.size());
    const plant = rest === undefined ? "" : parseLine(rest);
    if (rest === undefined || typeof plant === "string") return false;
    if (this.#index.get(plant.id) === undefined) return true;
    this.#options.onFault(await this.#compare(plant, tail, rest.length + 1));
    return false;
  }

  /** An index that has to grow moves every id several times: 150 ns an id. */
  async #makeLoader(end: number): Promise<IdLoader> {
    const { bytes, records } = this.#options.checkpoint ?? EMPTY_LOG;
    let ids = records;
    if (end > bytes) {
      const lines = await estimateLines(this.#file, end).catch(() => 0); // the scan will throw
      ids += Math.ceil(lines * (1 - bytes / end));
    }
    this.#index = new IdIndex(ids);
    return new IdLoader(this.#index, ids);
  }

  /** Adds the plants of a block, and returns its lines that are none. */
  #takeBlock(block: LineBlock, loader: IdLoader): LineFault[] {
    const unreadable: LineFault[] = [];
    let records = 0;
    const take: PlantTaker = (start, _, line, idLow, idHigh) => {
      loader.addWords(idLow, idHigh, block.offset + start, line);
      records++;
      return true;
    };
    checkLines(block, take, (line, position) => {
      const found = parseLine(line);
      if (typeof found !== "string") {
        loader.add(found.id, position.offset, position.line);
        records++;
        return;
      }
      const isLost = this.#options.isLost?.(line, position) === true;
      if (isLost) line.fill(" ");
      const kind = isLost ? "mendable" : "unreadable";
      const reason = isLost ? LOST_PAGES : found;
      unreadable.push({ kind, position, bytes: line.length + 1, reason });
    });
    this.#extend(block.bytes, records);
    return unreadable;
  }

  #extend(bytes: Buffer, records: number): void {
    const { checkpoint } = this.#options;
    const missing = (checkpoint?.bytes ?? 0) - this.#end.bytes;
    if (missing > 0 && missing <= bytes.length) {
      const sum = crc32(bytes.subarray(0, missing), this.#end.crc32);
      this.#matchesCheckpoint = sum === checkpoint?.crc32;
    }
    this.#end = extendCheckpoint(this.#end, bytes, records);
  }

  /** Reports unreadable lines, and the repeats among all plants so far, in their order. */
  async #report(unreadable: readonly LineFault[], loader: IdLoader): Promise<void> {
    const repeats = (await loader.flush()).map((position) => ({ position }));
    const inOrder = [...unreadable, ...repeats].sort(
      (a, b) => a.position.offset - b.position.offset,
    );
    for (const each of inOrder) {
      this.#options.onFault("kind" in each ? each : await this.#judgeRepeat(each.position));
    }
  }

  async #judgeRepeat(position: LinePosition): Promise<LineFault> {
    const { plant, bytes } = await this.#readAgain(position.offset);
    return this.#compare(plant, position, bytes);
  }

  /** Compares a plant with the first one of its id. */
  async #compare(plant: NewPlant, position: LinePosition, bytes: number): Promise<LineFault> {
    const offset = this.#index.get(plant.id) as number;
    const isRepeat = isSamePlant((await this.#readAgain(offset)).plant, plant);
    const what = isRepeat ? "already" : "with another name or tag";
    const reason = `id ${plant.id} stands at byte offset ${offset} ${what}`;
    return { kind: isRepeat ? "repeat" : "conflict", position, bytes, reason };
  }

  /** The plant of a line that was read before, and the length of the line. */
  async #readAgain(offset: number): Promise<{ readonly plant: NewPlant; readonly bytes: number }> {
    try {
      const line = await readLineAt(this.#file, offset, this.#end.bytes);
      const plant = parseNewPlant(line);
      if (this.#index.get(plant.id) !== undefined) return { plant, bytes: line.length + 1 };
    } catch (cause) {
      if (cause instanceof PlantStoreError && cause.code === "io_error") throw cause;
    }
    throw ioError(`Cannot read "${this.#file.path}"`, "it was changed while it was read");
  }
}

/** The plant of a line, or what is wrong with it. */
function parseLine(line: Buffer): NewPlant | string {
  try {
    return parseNewPlant(line);
  } catch (error) {
    if (error instanceof PlantStoreError) return error.message;
    throw error;
  }
}
