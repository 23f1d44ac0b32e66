/**
 * The time from the start of the process until the first plant is stored, with long logs in the page cache, beside one
 * read of the file by Node that makes its CRC-32.
 *
 *   npm run bench -- start --lines 0,1_000_000,10_000_000
 */
import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";
import { createToken } from "../../src/index.ts";
import { postPlant } from "../support/service.ts";
import { serve, withFolder } from "./programs.ts";
import { formatSpread, printTable, readOptions } from "./report.ts";

const options = readOptions({ lines: "0,1_000_000,10_000_000", rounds: "5" });
/** All lines have one length; ids are scattered over a range of 2^32 without a repeat. */
const FIRST_ID = 10_000_000_000;
const LINES_PER_WRITE = 50_000;

function writeLog(file: string, lines: number): void {
  const fd = fs.openSync(file, "wx", 0o600);
  for (let line = 0; line < lines; line += LINES_PER_WRITE) {
    let text = "";
    for (let at = line; at < Math.min(line + LINES_PER_WRITE, lines); at++) {
      const id = FIRST_ID + (Math.imul(at, 2_654_435_761) >>> 0);
      text += `{"id":${id},"name":"Monstera deliciosa","tag":"tropical"}\n`;
    }
    fs.writeSync(fd, text);
  }
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

/** How long one read of the file takes, with its checksum. */
function readOnce(file: string): number {
  const begin = performance.now();
  const block = Buffer.alloc(2 ** 20);
  const fd = fs.openSync(file, "r");
  let sum = 0;
  for (let got = -1; got !== 0; ) {
    got = fs.readSync(fd, block);
    sum = crc32(block.subarray(0, got), sum);
  }
  fs.closeSync(fd);
  return (performance.now() - begin) / 1000;
}

let created = 0;

/** One start, one create, one clean stop; returns the seconds until the plant was stored. */
async function start(folder: string, token: string): Promise<number> {
  const begin = performance.now();
  const server = await serve(folder, token);
  const url = `http://127.0.0.1:${server.port}`;
  const { status } = await postPlant(url, token, `{"id":${++created},"name":"Fern"}`);
  if (status !== 200) throw new Error(`the response was ${status}`);
  const seconds = (performance.now() - begin) / 1000;
  await server.stop();
  return seconds;
}

const rows: string[][] = [];
for (const lines of options.numbers("lines")) {
  await withFolder(async (folder) => {
    console.error(`${lines} lines`);
    const log = path.join(folder, "plants.jsonl");
    const token = await createToken(folder, { name: "bench" });
    writeLog(log, lines);
    await start(folder, token); // its stop leaves a checkpoint
    const starts: number[] = [];
    const reads: number[] = [];
    for (let round = 0; round < options.number("rounds"); round++) {
      reads.push(readOnce(log));
      starts.push(await start(folder, token));
    }
    const ratios = starts.map((seconds, at) => seconds / (reads[at] ?? 0));
    rows.push([lines.toLocaleString("en-US"), ...[starts, reads, ratios].map(formatSpread)]);
  });
}
printTable(["plants", "first plant s", "one read with CRC-32 s", "ratio"], rows);
