/** Compares a log on disk with what was sent and acknowledged. */
import { closeSync, openSync, readSync } from "node:fs";
import type { PlantBook } from "./plant-book.ts";

export interface LogFindings {
  readonly lines: number;
  /** Acknowledged plants that are missing, or have other content. */
  readonly lost: number;
  /** Plants that occur more than once. */
  readonly duplicated: number;
  /** Lines that are not a plant that was sent. */
  readonly unknownLines: number;
  /** Descriptions of the first few faults. */
  readonly faults: readonly string[];
}

const CHUNK_BYTES = 4 * 1024 * 1024;
const FAULTS_KEPT = 5;

/** Reads the whole file. Blank lines are no records. */
export function checkLog(path: string, book: PlantBook): LogFindings {
  const counts = new Uint8Array(book.taken);
  const faults: string[] = [];
  let lines = 0;
  let unknownLines = 0;
  const note = (fault: string) => faults.length < FAULTS_KEPT && faults.push(fault);
  for (const line of readLines(path)) {
    if (/^ *$/.test(line)) continue;
    lines++;
    const plant = isJson(line) ? book.numberOf(line) : undefined;
    if (plant === undefined || line !== book.line(plant)) {
      unknownLines++;
      note(`line ${lines} is no plant that was sent: ${JSON.stringify(line.slice(0, 100))}`);
    } else {
      counts[plant] = Math.min(255, (counts[plant] ?? 0) + 1);
    }
  }
  let lost = 0;
  let duplicated = 0;
  for (const [plant, count] of counts.entries()) {
    if (count > 1) {
      duplicated++;
      note(`plant ${plant} occurs ${count} times`);
    } else if (count === 0 && book.isAcknowledged(plant)) {
      lost++;
      note(`plant ${plant} was acknowledged and is lost`);
    }
  }
  return { lines, lost, duplicated, unknownLines, faults };
}

function isJson(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** The lines of a file, in bounded memory; the bytes after the last line feed are a line, too. */
function* readLines(path: string): Generator<string> {
  const fd = openSync(path, "r");
  try {
    let carried = Buffer.alloc(0);
    for (;;) {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      const got = readSync(fd, chunk);
      if (got === 0) break;
      const bytes = Buffer.concat([carried, chunk.subarray(0, got)]);
      let start = 0;
      for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
        yield bytes.toString("utf8", start, end);
        start = end + 1;
      }
      carried = Buffer.from(bytes.subarray(start));
    }
    if (carried.length > 0) yield carried.toString();
  } finally {
    closeSync(fd);
  }
}
