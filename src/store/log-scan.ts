/**
 * One pass over the lines of a log: every line judged, every plant indexed,
 * the checksum of all bytes kept.
 *
 * Recovery, `verify` and `repair` look at a log through here, so what makes a
 * line good stands once; what to do about one that is not is theirs to say.
 * One id may stand twice with the same content (an editor's doing).
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
import type { LineFault } from "./line-fault.ts";
import { checkLines, type PlantTaker } from "./plant-lines.ts";
import { isRecord } from "./record.ts";

export interface ScanOptions {
  readonly onFault: (fault: LineFault) => void;
  /** Asked about each unreadable line; true ends the scan in front of it. */
  readonly endsBefore?: (line: Buffer, position: LinePosition) => boolean;
  /** What the log was when its last checkpoint was written. */
  readonly checkpoint?: Checkpoint | undefined;
  /** Told how many bytes were read so far, about once a MiB. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/** A line whose place in the log needs a second look. */
interface Suspect {
  readonly position: LinePosition;
  readonly bytes: number;
  /** A plant whose id was there already, or why the line cannot be read. */
  readonly found: NewPlant | string;
}

interface Visit {
  readonly records: number;
  readonly unreadable: readonly Suspect[];
  /** The line in front of which the scan ends. */
  readonly stop: LinePosition | undefined;
}

/** About how long a line is: what a scan of so many bytes gets ready for. */
const LINE_BYTES_GUESS = 64;

/** How far apart the reports of progress are. */
const PROGRESS_BYTES = 1024 * 1024;

export class LogScan {
  /** Made by the first run, which knows how large to make it. */
  #index: IdIndex | undefined;
  /** Plants that were only inspected. */
  readonly #inspected = new Map<bigint, NewPlant>();
  readonly #file: LogFile;
  readonly #options: ScanOptions;
  #end = EMPTY_LOG;
  #matchesCheckpoint: boolean;
  /** What `onProgress` was told last. */
  #told = 0;

  constructor(file: LogFile, options: ScanOptions) {
    this.#file = file;
    this.#options = options;
    const { checkpoint = EMPTY_LOG } = options;
    this.#matchesCheckpoint =
      checkpoint.bytes === EMPTY_LOG.bytes && checkpoint.crc32 === EMPTY_LOG.crc32;
  }

  /** The ids of what was scanned so far; the same object for every run. */
  get index(): IdIndex {
    this.#index ??= new IdIndex();
    return this.#index;
  }

  /** What was scanned so far, as the checkpoint of a log that ends there. */
  get end(): Checkpoint {
    return this.#end;
  }

  /** Whether the bytes up to the checkpoint's length were seen and are the ones it knew. */
  get matchesCheckpoint(): boolean {
    return this.#matchesCheckpoint;
  }

  /** Scans the whole lines between two places; returns where it ended. */
  async run(start: LinePosition, end: number): Promise<LinePosition> {
    this.#index ??= new IdIndex(await this.#expectedIds(end));
    const loader = new IdLoader(this.#index, (end - start.offset) / LINE_BYTES_GUESS);
    let reached = start;
    let hasRepeats = false;
    for await (const block of this.#blocks(start, end, loader)) {
      const { records, unreadable, stop } = this.#visit(block, loader);
      reached = stop ?? positionAfter(block);
      this.#extend(block.bytes.subarray(0, reached.offset - block.offset), records);
      // A log that has a repeat may be full of them: from the first on, none waits.
      hasRepeats ||= loader.hasRepeats;
      // All that waits is settled first, so that faults are told in the order of their places.
      if (unreadable.length > 0 || hasRepeats) await this.#judgeAll(unreadable, loader);
      this.#tellProgress(reached.offset, end);
      if (stop !== undefined) break;
    }
    await this.#judgeAll([], loader);
    return reached;
  }

  /** Where the file cannot be read on, what was read is judged before that is told. */
  async *#blocks(start: LinePosition, end: number, loader: IdLoader): AsyncGenerator<LineBlock> {
    try {
      yield* readBlocks(this.#file, start, end, { isLent: true });
    } catch (error) {
      await this.#judgeAll([], loader);
      throw error;
    }
  }

  /** How many plants there are, among them those that were only inspected. */
  get plants(): number {
    return this.index.size + this.#inspected.size;
  }

  /** Judges what stands behind the last line feed, where it is a record that a start completes. */
  async inspectTail(tail: LinePosition): Promise<void> {
    const rest = await readTail(this.#file, tail.offset, this.#file.size());
    if (rest !== undefined && isRecord(rest)) await this.inspect(rest, tail);
  }

  /** Judges a line without adding it to the index. */
  async inspect(line: Buffer, position: LinePosition): Promise<void> {
    const { found, bytes } = suspectOf(line, position);
    if (typeof found === "string" || this.index.get(found.id) !== undefined) {
      await this.#judge({ position, bytes, found });
      return;
    }
    const first = this.#inspected.get(found.id);
    if (first === undefined) this.#inspected.set(found.id, found);
    else this.#tell({ position, bytes, found }, first, "before");
  }

  /** An index that grows meanwhile moves every id several times: 150 ns an id. */
  async #expectedIds(end: number): Promise<number> {
    const { bytes, records } = this.#options.checkpoint ?? EMPTY_LOG;
    if (end <= bytes) return records;
    const lines = await estimateLines(this.#file, end).catch(() => 0); // the scan tells what it met
    return records + Math.ceil(lines * (1 - bytes / end));
  }

  #visit(block: LineBlock, loader: IdLoader): Visit {
    const unreadable: Suspect[] = [];
    let records = 0;
    let stop: LinePosition | undefined;
    const take: PlantTaker = (start, _, line, idLow, idHigh) => {
      if (stop !== undefined) return false;
      loader.addWords(idLow, idHigh, block.offset + start, line);
      records++;
      return true;
    };
    checkLines(block, take, (bytes, position) => {
      if (stop !== undefined) return;
      const suspect = suspectOf(bytes, position);
      if (typeof suspect.found !== "string") {
        loader.add(suspect.found.id, position.offset, position.line);
        records++;
      } else if (this.#options.endsBefore?.(bytes, position) === true) stop = position;
      else unreadable.push(suspect);
    });
    return { records, unreadable, stop };
  }

  async #judgeAll(unreadable: readonly Suspect[], loader: IdLoader): Promise<void> {
    const repeats = (await loader.settle()).map((position) => ({ position }));
    const inOrder = [...unreadable, ...repeats].sort(
      (a, b) => a.position.offset - b.position.offset,
    );
    for (const suspect of inOrder) {
      const isRepeat = !("found" in suspect);
      await this.#judge(
        isRepeat ? { ...suspect, ...(await this.#readAgain(suspect.position.offset)) } : suspect,
      );
    }
  }

  /** The plant of a line that was read before, and how long that is. */
  async #readAgain(offset: number): Promise<{ readonly found: NewPlant; readonly bytes: number }> {
    try {
      const line = await readLineAt(this.#file, offset, this.#end.bytes);
      const found = parseNewPlant(line);
      if (this.index.get(found.id) !== undefined) return { found, bytes: line.length + 1 };
    } catch (cause) {
      if (cause instanceof PlantStoreError && cause.code === "io_error") throw cause;
    }
    throw ioError(`Cannot read "${this.#file.path}"`, "it was changed while it was read");
  }

  async #judge({ position, bytes, found }: Suspect): Promise<void> {
    const { onFault } = this.#options;
    if (typeof found === "string") {
      onFault({ kind: "unreadable", position, bytes, reason: found });
      return;
    }
    const offset = this.index.get(found.id) as number;
    const { found: first } = await this.#readAgain(offset);
    this.#tell({ position, bytes, found }, first, `at byte offset ${offset}`);
  }

  #tell(
    { position, bytes, found }: { position: LinePosition; bytes: number; found: NewPlant },
    first: NewPlant,
    where: string,
  ): void {
    const isRepeat = isSamePlant(first, found);
    const what = isRepeat ? "already" : "with another name or tag";
    const reason = `id ${found.id} stands ${where} ${what}`;
    this.#options.onFault({ kind: isRepeat ? "repeat" : "conflict", position, bytes, reason });
  }

  #tellProgress(bytes: number, end: number): void {
    if (bytes < this.#told + PROGRESS_BYTES && bytes < end) return;
    this.#told = bytes;
    this.#options.onProgress?.(bytes);
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
}

function suspectOf(line: Buffer, position: LinePosition): Suspect {
  return { position, bytes: line.length + 1, found: readLine(line) };
}

/** The plant of a line, or what is wrong with it. */
function readLine(line: Buffer): NewPlant | string {
  try {
    return parseNewPlant(line);
  } catch (error) {
    if (error instanceof PlantStoreError) return error.message;
    throw error;
  }
}
