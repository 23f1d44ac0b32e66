/**
 * One pass over the lines of a log: it judges every line, adds every plant to an index, and
 * computes the checksum of all bytes.
 *
 * A start, `verify`, `repair` and `backup` judge a log by this file only, and decide themselves what
 * to do about a damaged line. An id may occur twice with the same content, if a person duplicated it.
 */
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { isSamePlant, type NewPlant } from "../core/plant.ts";
import { type Checkpoint, EMPTY_LOG, extendCheckpoint } from "../log/checkpoint.ts";
import { ioError } from "../log/disk.ts";
import type { LogFile } from "../log/file.ts";
import {
  endOfLines,
  estimateLines,
  LINE_FEED,
  type LineBlock,
  type LinePosition,
  LOG_START,
  positionAfter,
  readBlocks,
  readLinesAt,
  readTail,
} from "../log/lines.ts";
import { IdIndex, IdLoader } from "./id-index.ts";
import { type PlantTaker, parseLine, takePlants } from "./records.ts";

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
  /** Receives every fault, in the order of their places. An error it throws ends the scan. */
  readonly onFault: (fault: LineFault) => void;
  /** Whether an unreadable line lost pages in a power cut. Default: none did. */
  readonly isLost?: ((line: Buffer, position: LinePosition) => boolean) | undefined;
  /** The last checkpoint of the log. */
  readonly checkpoint?: Checkpoint | undefined;
  /** Receives how many bytes were read, and of how many, about once a MiB. */
  readonly onProgress?: ((bytes: number, total: number) => void) | undefined;
}

const LOST_PAGES = "its batch lost pages in a power cut; the next start puts it aside by itself";

/** @internal */
export class LogScan {
  /** The ids of the scanned lines. */
  readonly index: IdIndex;
  /** The length of the log. */
  readonly size: number;
  /** The checkpoint of what was scanned; a line that lost pages counts as the spaces it becomes. */
  end = EMPTY_LOG;
  /** Where the lines that were scanned end. */
  tail = LOG_START;
  /** Whether what follows them is a new plant that lacks only its line feed: a start completes it. */
  isTailNew = false;
  /** Of the bytes up to the checkpoint's length, once they were scanned. */
  #knownSum = EMPTY_LOG.crc32;
  /** The scanned part at the start of each block: one a MiB. */
  readonly #marks: Checkpoint[] = [];
  readonly #file: LogFile;
  readonly #options: ScanOptions;
  readonly #loader: IdLoader;
  /** Read the lines of repeated ids again: one reads the repeats, the other the first lines of their ids. */
  readonly #repeats = new LineWindow();
  readonly #firsts = new LineWindow();

  private constructor(file: LogFile, size: number, ids: number, options: ScanOptions) {
    this.#file = file;
    this.size = size;
    this.#options = options;
    this.index = new IdIndex(ids);
    this.#loader = new IdLoader(this.index, ids);
  }

  /**
   * Scans the whole lines of the first `size` bytes, and judges what follows them.
   *
   * @throws PlantStoreError `io_error` if the file cannot be read; `corruption` for a line of more
   * than 512 MiB.
   */
  static async run(file: LogFile, size: number, options: ScanOptions): Promise<LogScan> {
    const end = await endOfLines(file, size);
    // An index that has to grow moves every id several times.
    const ids = await estimateLines(file, end).catch(() => 0); // the scan will throw
    const scan = new LogScan(file, size, ids, options);
    await scan.scanTo(end);
    await scan.#inspectTail();
    return scan;
  }

  /** How the log compares with its checkpoint; `shorter`: it ends before the checkpoint's length. */
  get checksum(): "matches" | "differs" | "shorter" | "none" {
    const { checkpoint } = this.#options;
    if (checkpoint === undefined) return "none";
    if (this.size < checkpoint.bytes) return "shorter";
    const isSeen = this.end.bytes >= checkpoint.bytes;
    return isSeen && this.#knownSum === checkpoint.crc32 ? "matches" : "differs";
  }

  /**
   * Where the last batch has to be written again from: the checkpoint, unless that is before the earliest
   * start of the batch; else the last place before it whose checksum is known.
   */
  startOfRewrite(earliest: number): Checkpoint {
    const { checkpoint } = this.#options;
    const isNear = checkpoint !== undefined && checkpoint.bytes >= earliest;
    if (isNear && this.checksum === "matches") return checkpoint;
    return this.#marks.findLast(({ bytes }) => bytes <= earliest) ?? EMPTY_LOG;
  }

  /** Scans the lines after those that were scanned, up to `end`, where a line ends. */
  async scanTo(end: number): Promise<void> {
    for await (const block of readBlocks(this.#file, this.tail, end)) {
      this.#marks.push(this.end);
      const unreadable = this.#takeBlock(block);
      this.tail = positionAfter(block);
      if (unreadable.length > 0 || this.#loader.hasRepeats) await this.#report(unreadable);
      this.#options.onProgress?.(this.tail.offset, end);
    }
    await this.#report([]);
  }

  /** Judges what follows the last line feed, without adding it to the index. */
  async #inspectTail(): Promise<void> {
    const rest = await readTail(this.#file, this.tail.offset, this.size);
    if (rest === undefined) return;
    const plant = parseLine(rest);
    if (plant instanceof PlantStoreError) return;
    this.isTailNew = this.index.get(plant.id) === undefined;
    if (!this.isTailNew) {
      this.#options.onFault(await this.#compare(plant, this.tail, rest.length + 1));
    }
  }

  /** Adds the plants of a block, and returns its lines that are none. */
  #takeBlock(block: LineBlock): LineFault[] {
    const loader = this.#loader;
    const unreadable: LineFault[] = [];
    let records = 0;
    const take: PlantTaker = (start, _, line, idLow, idHigh) => {
      loader.addWords(idLow, idHigh, block.offset + start, line);
      records++;
      return true;
    };
    takePlants(block, take, (line, position) => {
      const found = parseLine(line);
      if (!(found instanceof PlantStoreError)) {
        loader.add(found.id, position.offset, position.line);
        records++;
        return;
      }
      const isLost = this.#options.isLost?.(line, position) === true;
      if (isLost) line.fill(" ");
      const kind = isLost ? "mendable" : "unreadable";
      const reason = isLost ? LOST_PAGES : found.message;
      unreadable.push({ kind, position, bytes: line.length + 1, reason });
    });
    const missing = (this.#options.checkpoint?.bytes ?? 0) - this.end.bytes;
    if (missing > 0 && missing <= block.bytes.length) {
      this.#knownSum = crc32(block.bytes.subarray(0, missing), this.end.crc32);
    }
    this.end = extendCheckpoint(this.end, block.bytes, records);
    return unreadable;
  }

  /** Reports unreadable lines, and the repeats among all plants so far, in their order. */
  async #report(unreadable: readonly LineFault[]): Promise<void> {
    const faults = [...unreadable];
    for (const position of await this.#loader.flush()) {
      const { plant, bytes } = await this.#repeats.read(
        this.#file,
        position.offset,
        this.end.bytes,
      );
      faults.push(await this.#compare(plant, position, bytes));
    }
    faults.sort((a, b) => a.position.offset - b.position.offset);
    for (const fault of faults) this.#options.onFault(fault);
  }

  /** Compares a plant with the first one of its id. */
  async #compare(plant: NewPlant, position: LinePosition, bytes: number): Promise<LineFault> {
    const offset = this.index.get(plant.id);
    if (offset === undefined) throw changedError(this.#file);
    const { plant: first } = await this.#firsts.read(this.#file, offset, this.end.bytes);
    const isRepeat = isSamePlant(first, plant);
    const what = isRepeat ? "already" : "with another name or tag";
    const reason = `id ${plant.id} is at byte offset ${offset} ${what}`;
    return { kind: isRepeat ? "repeat" : "conflict", position, bytes, reason };
  }
}

const WINDOW_BYTES = 32 * 1024;

/**
 * Reads lines of plants again. Those that closely follow the last one cost no further read: in a log
 * that was appended to itself, both the repeats and the first lines follow each other.
 */
class LineWindow {
  #offset = 0;
  #bytes: Buffer = Buffer.alloc(0);

  /** @throws PlantStoreError `io_error` if no plant is there any more, on a line before `end`. */
  async read(
    file: LogFile,
    offset: number,
    end: number,
  ): Promise<{ readonly plant: NewPlant; readonly bytes: number }> {
    if (offset < this.#offset || offset >= this.#offset + this.#bytes.length) {
      this.#bytes = await readLinesAt(file, offset, end, WINDOW_BYTES);
      this.#offset = offset;
    }
    const start = offset - this.#offset;
    const line = this.#bytes.subarray(start, this.#bytes.indexOf(LINE_FEED, start));
    const plant = parseLine(line);
    if (plant instanceof PlantStoreError) throw changedError(file);
    return { plant, bytes: line.length + 1 };
  }
}

function changedError({ path }: LogFile): PlantStoreError {
  return ioError(`Cannot read "${path}"`, "it was changed while it was read");
}
