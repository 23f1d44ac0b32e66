/**
 * The time from the start of the process until the first plant is stored, with long logs in the page cache, beside one
 * read of the file by Node that makes its CRC-32.
 *
 *   npm run bench -- start --lines 0,1_000_000,10_000_000
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";
import { createToken } from "../../src/index.ts";
import { builtMain, endWithBench, note, readPort, withFolder } from "./programs.ts";
import { describeMachine, formatSpread, numbers, printTable, readOptions } from "./report.ts";

const options = readOptions({
  lines: "lengths of logs (0,1_000_000,10_000_000)",
  rounds: "starts of each (5)",
  program: "an executable to start instead of the built script",
});
const program = options.program === undefined ? [process.execPath, builtMain()] : [options.program];
/** All lines have one length; ids are scattered over a range of 2^32 without a repeat. */
const FIRST_ID = 10_000_000_000;
const LINES_PER_WRITE = 50_000;
const SERVE = ["serve", "--port", "0", "--log", "off", "--data"];

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
  for (;;) {
    const got = fs.readSync(fd, block);
    if (got === 0) break;
    sum = crc32(block.subarray(0, got), sum);
  }
  fs.closeSync(fd);
  return performance.now() - begin;
}

let created = 0;

/** One start, one create, one clean stop; returns when the create was answered. */
async function start(data: string, token: string): Promise<number> {
  const [first = "", ...rest] = [...program, ...SERVE, data];
  const begin = performance.now();
  const child = spawn(first, rest, { stdio: ["ignore", "pipe", "pipe"] });
  endWithBench(child);
  const port = await readPort(child);
  const answer = await fetch(`http://127.0.0.1:${port}/plants`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: `{"id":${++created},"name":"Fern"}`,
  });
  if (answer.status !== 200) throw new Error(`the answer was ${answer.status}`);
  const ms = performance.now() - begin;
  const ended = once(child, "exit");
  child.kill();
  await ended;
  return ms;
}

const rows: string[][] = [];
for (const lines of numbers(options.lines ?? "0,1_000_000,10_000_000")) {
  await withFolder(async (folder) => {
    note(`${lines} lines`);
    const log = path.join(folder, "plants.jsonl");
    fs.chmodSync(folder, 0o700);
    const token = await createToken(folder, { name: "bench" });
    writeLog(log, lines);
    await start(folder, token); // its stop leaves a checkpoint
    const starts: number[] = [];
    const reads: number[] = [];
    for (let round = 0; round < Number(options.rounds ?? 5); round++) {
      reads.push(readOnce(log) / 1000);
      starts.push((await start(folder, token)) / 1000);
    }
    const ratios = starts.map((seconds, at) => seconds / (reads[at] ?? 0));
    const cells = [formatSpread(starts), formatSpread(reads), formatSpread(ratios)];
    rows.push([lines.toLocaleString("en-US"), ...cells]);
  });
}
process.stdout.write(`${describeMachine()}\n\n`);
printTable(["plants", "first plant s", "one read with CRC-32 s", "ratio"], rows);
