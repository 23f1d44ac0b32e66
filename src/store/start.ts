/**
 * What a start does with the log of a data directory. Commands that only read the log, or repair or copy it,
 * find it, lock it and judge it by the same code, and decide themselves what to do about a damaged line.
 *
 * Invariants. Every line is read before anything is changed, so a log that needs a person is left
 * exactly as it was found. A start refuses a log if an acknowledged plant may be affected: a line cannot
 * be read, one id has two contents (either may be the acknowledged one), or the log is shorter than
 * its checkpoint or differs from it. An id may occur twice with the same content, if a person duplicated
 * it. What a power cut leaves is mended (log/mend). What is opened for writing is on disk, also what another
 * program wrote (log/resync). Knows no open store.
 */
import path from "node:path";
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { isSamePlant, type NewPlant } from "../core/plant.ts";
import {
  type Checkpoint,
  EMPTY_LOG,
  extendCheckpoint,
  isUnsynced,
  newCheckpointPath,
  readCheckpoint,
  syncCheckpoint,
} from "../log/checkpoint.ts";
import { disk, ioError } from "../log/disk.ts";
import { type ByteRange, LogFile } from "../log/file.ts";
import { exists, LOCK_NAME, LOG_NAME, prepareDirectory, removeLeftover } from "../log/folder.ts";
import {
  endOfLines,
  estimateLines,
  LINE_FEED,
  type LineBlock,
  type LinePosition,
  LOG_START,
  lineError,
  positionAfter,
  readBlocks,
  readLinesAt,
  readTail,
} from "../log/lines.ts";
import { type HeldLock, locks } from "../log/lock.ts";
import { lostLineJudge, mendLog } from "../log/mend.ts";
import { makeDurable, newLogPath, syncFound } from "../log/resync.ts";
import { IdIndex, IdLoader } from "./id-index.ts";
import { isRecord, type PlantTaker, parseLine, takePlants } from "./records.ts";

/** Receives how many bytes of the log were read, and of how many, about once a MiB. */
type OnProgress = (bytes: number, total: number) => void;

/** A log that may be appended to. @internal */
export interface OpenedLog {
  readonly lock: HeldLock;
  readonly file: LogFile;
  readonly index: IdIndex;
  /** The log as it is now: whole lines, all of them on disk. */
  readonly end: Checkpoint;
  /** The checkpoint that was found beside the log, if it is on disk. */
  readonly checkpoint: Checkpoint | undefined;
}

interface OpenOptions {
  /** The command that the error of another process names as the holder. */
  readonly command: string;
  readonly onProgress: OnProgress | undefined;
  /** How much of the log other processes may read. */
  readonly durableBytes: () => number | undefined;
}

/**
 * Locks a directory and opens its log for writing; makes both if they are missing.
 *
 * @throws PlantStoreError `locked` if another process has the directory, or changes the log in spite
 * of the lock; `corruption`; `unsynced` if the disk does not take what was read; `io_error`.
 * @internal
 */
export async function openLog(directory: string, options: OpenOptions): Promise<OpenedLog> {
  await prepareDirectory(directory);
  const lock = await lockDirectory(directory, options.command, options.durableBytes);
  try {
    return { lock, ...(await openLocked(logPathOf(directory), lock, options.onProgress)) };
  } catch (error) {
    await lock.close();
    throw error;
  }
}

async function openLocked(
  logPath: string,
  lock: HeldLock,
  onProgress: OnProgress | undefined,
): Promise<Omit<OpenedLog, "lock">> {
  const checkpoint = await readCheckpoint(logPath);
  if (!exists(logPath)) requireKnownBytes(logPath, checkpoint);
  let file = await LogFile.open(logPath, lock);
  try {
    const scan = await recover(file, checkpoint, onProgress);
    const { index, end } = scan;
    if (await makeDurable(file, end, (earliest) => scan.startOfRewrite(earliest))) {
      const old = file;
      file = await LogFile.open(logPath, lock);
      await old.close();
      file.assertInPlace(end.bytes); // another program may have found the copy first
    }
    if (end.bytes > 0) {
      // The log is good and nobody else writes here: killed processes left these.
      removeLeftover(newLogPath(logPath));
      removeLeftover(newCheckpointPath(logPath));
    }
    // Also one that cannot be read: after a power cut it could be an older one, of another log.
    const isSynced = await syncCheckpoint(logPath);
    return { file, index, end, checkpoint: isSynced ? checkpoint : undefined };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Reads a log, mends its end, and begins to sync it. */
async function recover(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
  onProgress: OnProgress | undefined,
): Promise<LogScan> {
  const size = file.end;
  requireKnownBytes(file.path, checkpoint, { size }); // before a scan that may take long
  const syncing = syncFound(file); // while it is read
  syncing.catch(() => {}); // it is awaited after the scan
  const lost: ByteRange[] = [];
  const read = async () =>
    LogScan.run(file, size, {
      checkpoint,
      isLost: await lostLineJudge(file, size, checkpoint?.bytes),
      onFault: ({ kind, position, bytes, reason }) => {
        if (kind === "mendable") lost.push({ ...position, bytes });
        else if (kind !== "repeat") throw lineError(file.path, position, `${reason}; ${ADVICE}`);
      },
      onProgress,
    });
  // Also if the log cannot be read: the file must not be closed amid a sync, and one that failed is remembered.
  const scan = await read().finally(() => syncing);
  requireKnownBytes(file.path, checkpoint, scan);
  if (isUnsynced(file.path) && (lost.length > 0 || scan.tail.offset < size)) {
    // No power cut: the page cache may have dropped what the disk never got.
    const fault = "a sync of the log has failed, and it is damaged here";
    throw lineError(file.path, lost[0] ?? scan.tail, `${fault}; ${ADVICE}`);
  }

  // Everything was read: from here on the log is changed.
  const length = await mendLog(file, { lost, tail: scan.tail, isRecord });
  await scan.scanTo(length); // the last record, if it was completed
  return scan;
}

const ADVICE =
  'restore the log from a backup, or have "plant-store repair" write one of what is readable';

/** @internal */
export function logPathOf(directory: string): string {
  return path.join(path.resolve(directory), LOG_NAME);
}

/** Takes the lock of a directory, like `locks.acquire`. @internal */
export function lockDirectory(
  directory: string,
  command: string,
  durableBytes?: () => number | undefined,
): Promise<HeldLock> {
  return locks.acquire(directory, { name: LOCK_NAME, command, durableBytes });
}

/** A numbered backup, and its number: `plants-000042-20261127T101500Z`. @internal */
export const BACKUP_NAME = /^plants-(\d{6,15})-\d{8}T\d{6}Z$/;

/**
 * Opens a log for reading.
 *
 * @throws PlantStoreError `io_error` if there is none; `corruption` if there is none and a
 * checkpoint is left that knows of one.
 * @internal
 */
export async function openLogForReading(directory: string): Promise<LogFile> {
  const logPath = logPathOf(directory);
  const file = await LogFile.openForReading(logPath);
  if (file !== undefined) return file;
  requireKnownBytes(logPath, await readCheckpoint(logPath));
  const backup = findBackup(directory);
  const advice =
    backup === undefined
      ? "expected a data directory or a backup, as --data or as SOURCE"
      : `name one of the numbered backups in this folder, such as "${path.join(directory, backup)}"`;
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${logPath}": there is no such file; ${advice}`,
  );
}

function findBackup(folder: string): string | undefined {
  try {
    return disk.list(folder).find(({ name }) => BACKUP_NAME.test(name))?.name;
  } catch {
    return undefined;
  }
}

/** How much of a log may be read. @internal */
export interface Readable {
  /** How many bytes may be read, with what follows the whole lines. */
  readonly size: number;
  /** Where the whole lines end. */
  readonly end: number;
  /** The line after them, with a line feed of its own; empty if there is none. */
  readonly lastLine: Buffer;
}

/**
 * While a process holds the directory, the bytes that it knows to be on disk are readable. While
 * none does, every whole line is, and so is a last record that lacks only its line feed: the next
 * start completes it.
 *
 * @throws PlantStoreError `locked` if the holder does not answer; `io_error`.
 * @internal
 */
export async function findReadable(directory: string, file: LogFile): Promise<Readable> {
  const durableBytes = await locks.askDurableBytes(directory, LOCK_NAME);
  const size = durableBytes ?? file.size();
  const end = await endOfLines(file, size);
  const tail = durableBytes === undefined ? await readTail(file, end, size) : undefined;
  const isWhole = tail !== undefined && isRecord(tail);
  return { size, end, lastLine: Buffer.concat(isWhole ? [tail, Buffer.of(LINE_FEED)] : []) };
}

/**
 * Reads and judges a log that is to be copied: every line, and the checksum. It is stricter than a start
 * in one respect: a line that lost pages in a power cut is damage, because only a start may set it aside.
 *
 * @param size how much of the file is the log.
 * @param sourcePath the log that errors name.
 * @throws PlantStoreError `corruption`, which names path, line and byte; `io_error`.
 * @internal
 */
export async function scanSoundLog(
  file: LogFile,
  size: number,
  checkpoint: Checkpoint | undefined,
  onProgress: OnProgress | undefined,
  sourcePath = file.path,
): Promise<LogScan> {
  const scan = await LogScan.run(file, size, {
    checkpoint,
    onFault: ({ kind, position, reason }) => {
      if (kind !== "repeat") throw lineError(sourcePath, position, reason);
    },
    onProgress,
  });
  requireKnownBytes(sourcePath, checkpoint, scan);
  return scan;
}

/**
 * @param found the length of the log and, once it was scanned, how it compares; absent if there is
 * none.
 * @throws PlantStoreError `corruption` unless the log begins with the bytes that its checkpoint knows.
 */
function requireKnownBytes(
  logPath: string,
  checkpoint: Checkpoint | undefined,
  found?: Partial<Pick<LogScan, "checksum">> & Pick<LogScan, "size">,
): void {
  const bytes = checkpoint?.bytes ?? 0;
  const known = `its checkpoint knows of ${bytes} bytes`;
  let fault: string;
  if (found === undefined && bytes > 0) fault = `it is missing, and ${known}`;
  else if (found !== undefined && found.size < bytes) {
    fault = `it holds ${found.size} bytes, and ${known}: it was cut, or copied before its checkpoint`;
  } else if (found?.checksum === "differs") {
    fault = `its first ${bytes} bytes are not those its checkpoint knows`;
  } else return;
  throw new PlantStoreError(
    "corruption",
    `Cannot open "${logPath}": ${fault}; restore it from a backup, or accept it as it is with ` +
      '"plant-store repair"',
  );
}

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
  readonly onProgress?: OnProgress | undefined;
}

const LOST_PAGES = "its batch lost pages in a power cut; the next start puts it aside by itself";

/**
 * One pass over the lines of a log: judges every line, adds every plant to an index, and computes the
 * checksum of all bytes.
 * @internal
 */
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
