/**
 * The index of a log as a file beside it, so that a start reads only what came
 * after: how it is written and read.
 *
 * Invariants. It is a cache: what is missing, torn, of another version or of
 * another log is left aside, and the log is read instead. It holds the index
 * exactly as it was at one length of the log, and appears only once a
 * checkpoint of that length or more is on disk, so that a log is never judged
 * by it. Nothing is synced: every page carries its checksum, and what says how
 * to read them stands at the end, where a file that was cut has none. When it is
 * written is not known here (see store/snapshotter), nor when its pages are read
 * (see store/snapshot-pages).
 *
 * The file: the pages of the index as they stand in memory; a directory, for
 * each page its table, its number, how many ids it holds and its CRC-32, each as
 * 32 bits; a footer of 512 bytes, JSON, spaces, the CRC-32 of all that in hex
 * digits and a line feed.
 */
import fs, { type FileHandle } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { publishWarning } from "../core/channels.ts";
import { type Checkpoint, isNewerThanCheckpoint } from "../log/checkpoint.ts";
import { ioError, type LogFile, openEntry } from "../log/file.ts";
import { replaceCache } from "../log/replace-file.ts";
import { IdIndex } from "./id-index.ts";
import type { IndexCopy, IndexShape } from "./index-copy.ts";
import { PAGE_BYTES } from "./slot-table.ts";
import { type PageSum, SnapshotPages } from "./snapshot-pages.ts";

const VERSION = 1;
const ENTRY_BYTES = 16;
const FOOTER_BYTES = 512;
/** Hex digits and a line feed. */
const CHECK_BYTES = 9;
/** Of the log, in front of the length that is covered. */
const LOG_TAIL_BYTES = 1024 * 1024;
/** A length of a log that ends with a line. */
export interface LogEnd extends Checkpoint {
  /** The number of the line that starts there, counted from 1. */
  readonly line: number;
}

/** The index of the first bytes of a log. */
export interface IndexSnapshot {
  /** Lacks its pages until they are read. */
  readonly index: IdIndex;
  readonly pages: SnapshotPages;
  readonly end: LogEnd;
}

interface Footer {
  readonly version: number;
  readonly inode: string;
  readonly end: LogEnd;
  /** CRC-32 of what stands in the log in front of that end, up to `LOG_TAIL_BYTES`. */
  readonly logTail: number;
  readonly shape: Omit<IndexShape, "seed"> & { readonly seed: string };
  /** How many ids there are. */
  readonly size: number;
  readonly pages: number;
  /** CRC-32 of it. */
  readonly directory: number;
}

interface Entry extends PageSum {
  readonly used: number;
}

export function snapshotPath(logPath: string): string {
  return `${logPath}.index`;
}

/** Removes the snapshot of a log, if there is one. @throws PlantStoreError `io_error`. */
export async function removeSnapshot(logPath: string): Promise<void> {
  try {
    await fs.rm(snapshotPath(logPath), { force: true });
  } catch (cause) {
    throw ioError(`Cannot remove "${snapshotPath(logPath)}"`, cause);
  }
}

/** At most so many bytes are written for this copy. */
export function snapshotBytes(copy: IndexCopy): number {
  return copy.pageCount * (PAGE_BYTES + ENTRY_BYTES) + FOOTER_BYTES;
}

export interface SnapshotParts {
  /** Begun when the index held exactly the ids of the log up to `end`. */
  readonly copy: IndexCopy;
  readonly end: LogEnd;
  /** How many ids these are. */
  readonly size: number;
  /** Waited for after every page. */
  readonly rest: () => Promise<void>;
  /** Waited for before the file gets its name: sees to it that a checkpoint of that end is on disk. */
  readonly saveCheckpoint: () => Promise<void>;
}

/** The store grew faster than its index could be written. */
export class OvertakenError extends Error {}

/**
 * Writes the snapshot of a log, page by page; the one before it stays when that
 * fails. One page takes about 0.3 ms of the event loop.
 *
 * @throws what `rest` and `saveCheckpoint` throw, the system's error, OvertakenError, or an
 * error where the copy is not what it should be.
 */
export async function writeSnapshot(file: LogFile, parts: SnapshotParts): Promise<void> {
  const { copy, end, size, rest, saveCheckpoint } = parts;
  await replaceCache(snapshotPath(file.path), async (handle) => {
    const bytes = Buffer.allocUnsafeSlow(PAGE_BYTES);
    const entries: Entry[] = [];
    for (const page of copy.pages(bytes)) {
      entries.push({ ...page, crc32: crc32(bytes) });
      await handle.writeFile(bytes); // goes on where the last one ended
      await rest();
      if (copy.isLost) break;
    }
    if (copy.isLost) throw new OvertakenError();
    const written = entries.reduce((sum, { used }) => sum + used, 0);
    // Served from, an index that lacks an id would let it be stored twice.
    if (written !== size) throw new Error(`expected ${size} ids in the index, got ${written}`);
    await saveCheckpoint();
    const directory = encodeDirectory(entries);
    const footer = {
      version: VERSION,
      inode: String(file.inode),
      end,
      logTail: await sumOfTail(file, end.bytes),
      shape: { ...copy.shape, seed: Buffer.from(copy.shape.seed).toString("hex") },
      size,
      pages: entries.length,
      directory: crc32(directory),
    };
    await handle.writeFile(Buffer.concat([directory, encodeFooter(footer)]));
  });
}

/**
 * The index of a log as its snapshot has it, with no page read yet; `undefined`
 * where there is none to go by. Warns where one is damaged; never rejects.
 *
 * @param checkpoint of the log: a snapshot that knows more than it is left aside.
 */
export async function readSnapshot(
  file: LogFile,
  checkpoint: Checkpoint | undefined,
): Promise<IndexSnapshot | undefined> {
  const path = snapshotPath(file.path);
  let handle: FileHandle | undefined;
  try {
    handle = await openEntry(path);
    const { size } = await handle.stat();
    const footer = decodeFooter(await readPart(handle, size - FOOTER_BYTES, FOOTER_BYTES));
    if (footer === undefined || !(await isOfLog(footer, file, checkpoint))) return undefined;
    const entries = await readDirectory(handle, footer);
    const { seed, ...shape } = footer.shape;
    const index = IdIndex.ofPages(
      { ...shape, seed: Buffer.from(seed, "hex") },
      entries,
      footer.size,
    );
    return { index, pages: new SnapshotPages(path, entries, index), end: footer.end };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") warnOfSnapshot(file, cause);
    return undefined;
  } finally {
    await handle?.close();
  }
}

/** Says that a snapshot is no good, and that the log is read in its place. */
export function warnOfSnapshot({ path }: LogFile, cause: unknown): void {
  publishWarning(`"${snapshotPath(path)}" cannot be used, so the whole log is read instead`, cause);
}

/** Whether it was made of this very log, as far as can be told without reading all of it. */
async function isOfLog(
  { inode, end, logTail }: Footer,
  file: LogFile,
  checkpoint: Checkpoint | undefined,
): Promise<boolean> {
  if (inode !== String(file.inode) || checkpoint === undefined) return false;
  if (end.bytes > checkpoint.bytes || end.bytes > file.size()) return false;
  // An edit by hand may keep the length, but not the time.
  if (file.size() === checkpoint.bytes && (await isNewerThanCheckpoint(file.path))) return false;
  return (await sumOfTail(file, end.bytes)) === logTail;
}

async function sumOfTail(file: LogFile, end: number): Promise<number> {
  const bytes = Buffer.alloc(Math.min(end, LOG_TAIL_BYTES));
  await file.read(bytes, end - bytes.length);
  return crc32(bytes);
}

async function readDirectory(handle: FileHandle, { pages, directory }: Footer): Promise<Entry[]> {
  const bytes = await readPart(handle, pages * PAGE_BYTES, pages * ENTRY_BYTES);
  if (crc32(bytes) !== directory) throw new Error("its directory is damaged");
  return decodeDirectory(bytes);
}

async function readPart(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  if (position >= 0) await handle.read(bytes, 0, length, position);
  return bytes;
}

function encodeDirectory(entries: readonly Entry[]): Buffer {
  const numbers = entries.flatMap(({ isOld, page, used, crc32: sum }) => [
    isOld ? 1 : 0,
    page,
    used,
    sum,
  ]);
  const bytes = Buffer.alloc(numbers.length * 4);
  for (const [at, number] of numbers.entries()) bytes.writeUInt32LE(number, at * 4);
  return bytes;
}

function decodeDirectory(bytes: Buffer): Entry[] {
  return Array.from({ length: bytes.length / ENTRY_BYTES }, (_, entry) => {
    const number = (at: number) => bytes.readUInt32LE(entry * ENTRY_BYTES + at * 4);
    return { isOld: number(0) === 1, page: number(1), used: number(2), crc32: number(3) };
  });
}

function encodeFooter(footer: Footer): Buffer {
  const text = JSON.stringify(footer).padEnd(FOOTER_BYTES - CHECK_BYTES);
  return Buffer.from(`${text}${checkOf(text)}`);
}

/** `undefined` for anything but a footer of this version. */
function decodeFooter(bytes: Buffer): Footer | undefined {
  const text = bytes.toString("latin1", 0, FOOTER_BYTES - CHECK_BYTES);
  if (bytes.toString("latin1", FOOTER_BYTES - CHECK_BYTES) !== checkOf(text)) return undefined;
  const footer: Footer = JSON.parse(text);
  return footer.version === VERSION ? footer : undefined;
}

function checkOf(text: string): string {
  return `${crc32(text).toString(16).padStart(8, "0")}\n`;
}
