/**
 * Logs of any size in seconds: lines of one length, their ids scattered over a
 * range of 2^32 without a repeat.
 *
 *   node --import tsx test/bench/generate.ts LINES > plants.jsonl
 */
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { note } from "./support/machine.ts";
import { formatRound } from "./support/numbers.ts";

/** Added to each id, so that all have 11 digits; the ids of the load have 16. */
const ID_BASE = 10_000_000_000;
const ID_DIGITS = 11;
const LINE = Buffer.from(`{"id":${ID_BASE},"name":"Monstera deliciosa","tag":"tropical"}\n`);
const ID_AT = '{"id":'.length;
const LINES_PER_WRITE = 16_384;
const ZERO = 48;

/** The length of a log of this many lines. */
export function logBytes(lines: number): number {
  return lines * LINE.length;
}

/** The id in a line, counted from 0: an odd factor visits every number below 2^32 once. */
export function idOfLine(line: number): number {
  return ID_BASE + (Math.imul(line, 2_654_435_761) >>> 0);
}

/** Writes a log, without a sync. */
export function generateLog(fd: number, lines: number): void {
  const block = Buffer.alloc(LINES_PER_WRITE * LINE.length);
  for (let at = 0; at < block.length; at += LINE.length) LINE.copy(block, at);
  for (let line = 0; line < lines; line += LINES_PER_WRITE) {
    const count = Math.min(LINES_PER_WRITE, lines - line);
    for (let index = 0; index < count; index++) {
      putDigits(block, index * LINE.length + ID_AT, idOfLine(line + index));
    }
    writeAll(fd, block.subarray(0, count * LINE.length));
  }
}

/** Works on two halves, which are small integers: dividing the whole id would take three times as long. */
function putDigits(bytes: Buffer, at: number, id: number): void {
  let high = Math.floor(id / 1e6);
  let low = id - high * 1e6;
  for (let digit = ID_DIGITS - 1; digit >= ID_DIGITS - 6; digit--) {
    const rest = (low / 10) | 0;
    bytes[at + digit] = ZERO + low - rest * 10;
    low = rest;
  }
  for (let digit = ID_DIGITS - 7; digit >= 0; digit--) {
    const rest = (high / 10) | 0;
    bytes[at + digit] = ZERO + high - rest * 10;
    high = rest;
  }
}

function writeAll(fd: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length; ) {
    written += fs.writeSync(fd, bytes, written);
  }
}

/** Makes a new data directory with a synced log. */
export function generateStore(folder: string, lines: number): void {
  note(`generating ${formatRound(lines)} lines, ${logBytes(lines) / 1e6} MB`);
  fs.mkdirSync(folder, { mode: 0o700 });
  const fd = fs.openSync(path.join(folder, "plants.jsonl"), "wx", 0o600);
  try {
    generateLog(fd, lines);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const lines = Number(process.argv[2]);
  if (!(Number.isInteger(lines) && lines >= 0 && lines <= 2 ** 32)) {
    throw new RangeError("usage: generate.ts LINES");
  }
  generateLog(1, lines);
}
