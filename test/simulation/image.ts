/**
 * A second reader of a data directory, tiny and slow: what its bytes say, without the code under test.
 *
 * Invariant. It knows the formats from the documents alone, and shares no line with `src`.
 */
import { crc32 } from "node:zlib";

const LINE_FEED = 0x0a;
const STRING = String.raw`"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"`;
/** A plant as the store writes it. */
const STRICT = new RegExp(`^{"id":(0|-?[1-9][0-9]*),"name":(${STRING})(?:,"tag":(${STRING}))?}$`);

interface Plant {
  readonly id: string;
  /** Name and tag: equal for two spellings of one plant. */
  readonly content: string;
}

export interface Image {
  /** The lines that are plants as the store writes them, and where each ends. */
  readonly plants: readonly (Plant & { readonly end: number })[];
  /** Where the first other line begins, or what lacks its line feed; undefined if there is nothing else. */
  readonly bad: number | undefined;
}

export function contentOf(name: string, tag: string | undefined): string {
  return JSON.stringify(tag === undefined ? [name] : [name, tag]);
}

export function parseLog(bytes: Buffer): Image {
  const plants: (Plant & { end: number })[] = [];
  let bad: number | undefined;
  let end = 0;
  for (const line of wholeLines(bytes)) {
    const plant = parseStrict(line);
    if (plant === undefined) bad ??= end;
    end += line.length + 1;
    if (plant !== undefined) plants.push({ ...plant, end });
  }
  if (end < bytes.length) bad ??= end;
  return { plants, bad };
}

function* wholeLines(bytes: Buffer): Generator<Buffer> {
  let start = 0;
  for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
    yield bytes.subarray(start, end);
    start = end + 1;
  }
}

const isInt64 = (id: string) => BigInt.asIntN(64, BigInt(id)) === BigInt(id);

function decode(line: Buffer): string {
  const text = line.toString();
  return Buffer.from(text).equals(line) ? text : "";
}

function parseStrict(line: Buffer): Plant | undefined {
  const [, id, name, tag] = STRICT.exec(decode(line)) ?? [];
  if (id === undefined || name === undefined || !isInt64(id)) return undefined;
  return { id, content: contentOf(JSON.parse(name), tag && JSON.parse(tag)) };
}

/** A plant in any spelling, as a repair takes it. */
function parseAny(line: Buffer): Plant | undefined {
  try {
    const text = decode(line);
    const { name, tag } = JSON.parse(text);
    // As digits: a number of JavaScript would round it.
    const id = /"id"\s*:\s*(-?[0-9]+)\s*[,}]/.exec(text)?.[1];
    const isPlant = typeof name === "string" && ["string", "undefined"].includes(typeof tag);
    const isTwice = /"(id|name|tag)"\s*:.*"\1"\s*:/s.test(text);
    if (!isPlant || isTwice || id === undefined || !isInt64(id)) return undefined;
    return { id: String(BigInt(id)), content: contentOf(name, tag) };
  } catch {
    return undefined;
  }
}

/** What a repair has to make of a log: every plant that can be read, once, and what it leaves out. */
export function repaired(bytes: Buffer): { plants: Plant[]; leftOut: Buffer[] } {
  const plants = new Map<string, Plant>();
  const leftOut: Buffer[] = [];
  for (const line of [...wholeLines(bytes), bytes.subarray(bytes.lastIndexOf(LINE_FEED) + 1)]) {
    const plant = parseAny(line);
    if (plant !== undefined && !plants.has(plant.id)) plants.set(plant.id, plant);
    else if (line.length > 0) leftOut.push(line);
  }
  return { plants: [...plants.values()], leftOut };
}

/** Whether a crash may have left these bytes: no line feed, or a NUL in the first line. */
export function isTorn(tail: Buffer): boolean {
  const lineEnd = tail.indexOf(LINE_FEED);
  return lineEnd < 0 || tail.subarray(0, lineEnd).includes(0);
}

/** How many bytes of the log a checkpoint knows; 0 if it is missing or damaged. */
export function knownBytes(checkpoint: Buffer | undefined): number {
  const [, bytes = "0"] = /^\{"bytes":(\d+),"crc32":\d+\}\n$/.exec(String(checkpoint)) ?? [];
  return Number(bytes);
}

/** Whether a log begins with the bytes that a checkpoint knows. */
export function isAsKnown(log: Buffer, checkpoint: Buffer | undefined): boolean {
  const bytes = knownBytes(checkpoint);
  const text = `{"bytes":${bytes},"crc32":${crc32(log.subarray(0, bytes))}}\n`;
  return checkpoint === undefined || (log.length >= bytes && checkpoint.toString() === text);
}

export function parseTokens(bytes: Buffer = Buffer.alloc(0)) {
  const tokens = [...wholeLines(bytes)].map((line) => JSON.parse(String(line)));
  return new Map<string, { name: string; revokedAt?: string }>(tokens.map((it) => [it.hash, it]));
}
