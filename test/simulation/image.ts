/**
 * A second reader of logs, tiny and slow: what the bytes of a data directory say, without the code under test.
 *
 * Invariant. It knows the format from the documents alone, and shares no line with `src`.
 */
import { crc32 } from "node:zlib";

const LINE_FEED = 0x0a;
const SECTOR_BYTES = 512;
/** What a start may set aside is no farther from the end than a batch. */
const BATCH_BYTES_MAX = 1024 * 1024;

/** A line of a log that holds a plant. */
export interface ImagePlant {
  readonly id: string;
  /** Name and tag: equal for two spellings of one plant. */
  readonly content: string;
  readonly offset: number;
  /** With its line feed. */
  readonly bytes: number;
}

export interface ByteRange {
  readonly offset: number;
  readonly bytes: number;
}

export interface Image {
  readonly bytes: Buffer;
  readonly plants: readonly ImagePlant[];
  /** Lines that are neither plants nor blank. */
  readonly bad: readonly ByteRange[];
  /** Where the whole lines end. */
  readonly end: number;
}

export function contentOf(name: string, tag: string | undefined): string {
  return JSON.stringify(tag === undefined ? [name] : [name, tag]);
}

export function parseImage(bytes: Buffer): Image {
  const plants: ImagePlant[] = [];
  const bad: ByteRange[] = [];
  let offset = 0;
  for (const { line, length } of linesOf(bytes)) {
    const plant = parsePlant(line);
    if (plant !== undefined) plants.push({ ...plant, offset, bytes: length });
    else if (!/^[ \t\r]*$/.test(line)) bad.push({ offset, bytes: length });
    offset += length;
  }
  return { bytes, plants, bad, end: offset };
}

function* linesOf(bytes: Buffer): Generator<{ readonly line: string; readonly length: number }> {
  let start = 0;
  for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
    const text = bytes.toString("utf8", start, end);
    // The byte order mark of an editor is no part of the first line.
    const line = start === 0 && text.startsWith("\ufeff") ? text.slice(1) : text;
    yield { line, length: end + 1 - start };
    start = end + 1;
  }
}

/** The plant of a line, or of text that lacks its line feed. */
export function parsePlant(line: string): Pick<ImagePlant, "id" | "content"> | undefined {
  try {
    const { name, tag } = JSON.parse(line);
    // As digits: a number of JavaScript would round it.
    const id = /"id"\s*:\s*(-?[0-9]+)(?:\.0+)?\s*[,}]/.exec(line)?.[1];
    const isPlant =
      id !== undefined &&
      BigInt.asIntN(64, BigInt(id)) === BigInt(id) &&
      typeof name === "string" &&
      ["string", "undefined"].includes(typeof tag);
    // A cut that mixes what others wrote over each other may repeat a member.
    const isStrict = !line.includes("\ufffd") && !/"(id|name|tag)"\s*:.*"\1"\s*:/s.test(line);
    return isPlant && isStrict ? { id, content: contentOf(name, tag) } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a line lost a whole sector: a power cut amid its append leaves zeros there. */
export function hasZeroSector(bytes: Buffer, { offset, bytes: length }: ByteRange): boolean {
  const lineEnd = offset + length - 1;
  for (let start = offset; start < lineEnd; ) {
    const end = start - (start % SECTOR_BYTES) + SECTOR_BYTES;
    if (end <= lineEnd && bytes.subarray(start, end).every((byte) => byte === 0)) return true;
    start = end;
  }
  return false;
}

export interface CheckpointImage {
  readonly bytes: number;
  readonly crc32: string;
}

export function parseCheckpoint(bytes: Buffer | undefined): CheckpointImage | undefined {
  const text = bytes?.toString("utf8") ?? "";
  const [, checked = "", check] = /^(\{.*),"check":"([0-9a-f]{8})"\}\n$/.exec(text) ?? [];
  if (check === undefined || hex(crc32(checked)) !== check) return undefined;
  return JSON.parse(text);
}

function hex(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

/**
 * Why a start has to refuse a log, by the documents; `undefined`: it has to serve it.
 *
 * @param log `undefined`: there is none.
 */
export function whyRefused(
  log: Image | undefined,
  checkpoint: CheckpointImage | undefined,
): string | undefined {
  const known = checkpoint?.bytes ?? 0;
  if (log === undefined) return known > 0 ? "the log is missing" : undefined;
  const { bytes, plants, bad } = log;
  if (bytes.length < known) return "the log is shorter than its checkpoint";
  if (checkpoint !== undefined && hex(crc32(bytes.subarray(0, known))) !== checkpoint.crc32) {
    return "the log differs from its checkpoint";
  }
  const batchStart = bytes.subarray(0, Math.max(0, bytes.length - 1)).lastIndexOf(LINE_FEED) + 1;
  const first = Math.max(known, batchStart - BATCH_BYTES_MAX);
  const damaged = bad.find((line) => line.offset < first || !hasZeroSector(bytes, line));
  if (damaged !== undefined) return `a line at byte ${damaged.offset} is damaged`;
  const contents = new Map<string, string>();
  for (const { id, content } of [...plants, ...tailPlant(log)]) {
    if ((contents.get(id) ?? content) !== content) return `id ${id} has two contents`;
    contents.set(id, content);
  }
  return undefined;
}

/** The plant after the last line feed, if it lacks only that. */
export function tailPlant({ bytes, end }: Image): ImagePlant[] {
  const plant = parsePlant(bytes.toString("utf8", end).replace(/^\ufeff/, ""));
  return plant === undefined ? [] : [{ ...plant, offset: end, bytes: bytes.length - end }];
}

/** The lines of a log with their places, and what follows the last line feed. */
export function piecesOf(bytes: Buffer): ByteRange[] {
  const pieces: ByteRange[] = [];
  let offset = 0;
  for (const { length } of linesOf(bytes)) {
    pieces.push({ offset, bytes: length });
    offset += length;
  }
  if (offset < bytes.length) pieces.push({ offset, bytes: bytes.length - offset });
  return pieces;
}

/** What the events of a token log amount to, by the hashes of the tokens. */
export interface TokenImage {
  readonly created: ReadonlyMap<string, string>;
  readonly revoked: ReadonlySet<string>;
  /** Whole lines that are no events. */
  readonly bad: readonly ByteRange[];
}

interface TokenText {
  readonly name: string;
  readonly hash: string;
  readonly scopes: readonly string[];
  readonly createdAt: string;
  readonly revokedAt?: string;
}

interface TokenLine extends TokenText {
  readonly event?: string;
  readonly tokens?: readonly TokenText[];
}

const isTime = (text: string | undefined) => {
  const time = Date.parse(text ?? "");
  return !Number.isNaN(time) && new Date(time).toISOString() === text;
};
/** A cut may mix a line out of two edits, so every member is looked at. */
const isToken = ({ hash, scopes, createdAt, revokedAt = createdAt }: TokenText) =>
  /^[0-9a-f]{64}$/.test(hash) &&
  scopes.every((scope) => scope === "read" || scope === "write") &&
  [createdAt, revokedAt].every(isTime);

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

export function parseTokenImage(bytes: Buffer): TokenImage {
  const created = new Map<string, string>();
  const revoked = new Set<string>();
  const bad: ByteRange[] = [];
  /** Returns false for what is no event. */
  const apply = (line: TokenLine): boolean => {
    const { event, name, revokedAt, tokens = [line] } = line;
    if (event === "revoked") {
      if (!isTime(revokedAt)) return false;
      const ended = [...created].filter(([each, owner]) => owner === name && !revoked.has(each));
      for (const [each] of ended) revoked.add(each);
      return ended.length > 0;
    }
    if ((event !== "created" && event !== "imported") || !tokens.every(isToken)) return false;
    for (const token of tokens) {
      if (!created.has(token.hash)) created.set(token.hash, token.name);
      if (token.revokedAt !== undefined) revoked.add(token.hash);
    }
    return true;
  };
  const isEvent = (line: string) => {
    try {
      return apply(JSON.parse(line));
    } catch {
      return false;
    }
  };
  let end = 0;
  for (const { line, length } of linesOf(bytes)) {
    if (!/^[ \t\r]*$/.test(line) && !isEvent(line)) bad.push({ offset: end, bytes: length });
    end += length;
  }
  // A last line counts without its line feed, and with another byte that a power cut left of it.
  const rest = bytes.toString("utf8", end);
  const last = [rest, rest.slice(0, -1)].find(isJson);
  if (last !== undefined && !isEvent(last)) bad.push({ offset: end, bytes: bytes.length - end });
  return { created, revoked, bad };
}
