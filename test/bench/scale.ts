/**
 * The cost of size: memory per plant, pauses while the index grows, creates beside
 * a large log, reading one plant and all of them.
 *
 *   npm run bench -- scale          about five minutes
 *   npm run bench -- scale --full   the sizes of the promise: 50 M, 20 M, 10 M
 *
 * Every number is a median of runs that alternate with a comparison: a full index
 * with the same loop and an empty index, a full server with an empty one.
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { generateStore, logBytes } from "./generate.ts";
import { compare, measure, repeatRefused } from "./support/compare.ts";
import { LineCounter } from "./support/line-counter.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, note, pinned, withFolder } from "./support/machine.ts";
import { formatRound, formatSpread, median, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { runNode, runToEnd } from "./support/program.ts";
import { formatRows } from "./support/report.ts";
import { formatTable } from "./support/table.ts";
import {
  builtMain,
  ROOT,
  type Start,
  startServer,
  type Target,
  withNewData,
  withNewTargets,
} from "./support/targets.ts";

const options = readOptions({
  full: "switch: index 1, 10 and 50 M, creates beside 20 M, reading of 10 M",
  index: "plants to fill an index with (1_000_000,5_000_000)",
  ids: "scattered, sequential or modulo: all equal modulo 2^32 (scattered)",
  store: "plants beside which creates are measured (2_000_000)",
  log: "plants of which one and all are read (2_000_000)",
  runs: "rounds of each, of creates after each of three starts (5; at the sizes of --full 3 for memory)",
  seconds: "whole seconds of a run of creates (2)",
  connections: "connections that create (256)",
  dir: "where to make the data directories (the system's temporary folder)",
});

const isFull = options.full !== undefined;
const runs = positive(options.runs, 5);
const DIST = path.join(ROOT, "dist");

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\nload: ${loadName}\n\n`);
  await measureIndex(path.join(DIST, "store/id-index.js"));
  await measureCreates(folder);
  await measureReading(folder);
});

interface Filled {
  readonly rss: number;
  readonly peak: number;
  readonly arrayBuffers: number;
  /** What filling took. */
  readonly fillMs: number;
  /** How long the loop ran. */
  readonly ms: number;
  readonly gaps: readonly number[];
  /** Processor time of the gaps in which this process itself was busy for so long. */
  readonly ownGaps: readonly number[];
}

async function measureIndex(module: string): Promise<void> {
  const rows: string[][] = [];
  const sizes = positives(options.index, isFull ? [1e6, 1e7, 5e7] : [1e6, 5e6]);
  for (const size of sizes) {
    const rounds = isFull && options.runs === undefined ? 3 : runs;
    note(`an index of ${formatRound(size)}, ${rounds} rounds`);
    const full: Filled[] = [];
    const empty: Filled[] = [];
    for (let round = 0; round < rounds; round++) {
      const filled = await fill(module, size, "full");
      full.push(filled);
      empty.push(await fill(module, size, "empty", filled.ms));
    }
    rows.push(describeIndex(size, full, empty));
  }
  const head = ["index of", "arrayBuffers B/plant", "resident B/plant", "highest B/plant"];
  const gaps = [
    "add µs",
    "gaps > 10 ms, longest",
    "in the empty loop",
    "its own",
    "the empty loop's",
  ];
  process.stdout.write(
    `${formatTable([...head, ...gaps], rows)}\n` +
      "Both loops run equally long. Their own gaps: 10 ms of processor time, so no other program's.\n\n",
  );
}

async function fill(
  module: string,
  size: number,
  mode: "full" | "empty",
  minimumMs = 0,
): Promise<Filled> {
  const program = fileURLToPath(new URL("./programs/fill-index.mjs", import.meta.url));
  const args = [module, size, mode, options.ids ?? "scattered", minimumMs].map(String);
  return JSON.parse(await runNode(["--expose-gc", program, ...args], { wrapper: pinned(0) }));
}

function describeIndex(size: number, full: readonly Filled[], empty: readonly Filled[]): string[] {
  const perPlant = (value: (filled: Filled) => number) =>
    formatSpread(
      spread(full.map((filled, round) => (value(filled) - value(empty[round] as Filled)) / size)),
      1,
    );
  return [
    formatRound(size),
    perPlant(({ arrayBuffers }) => arrayBuffers),
    perPlant(({ rss }) => rss),
    perPlant(({ peak }) => peak),
    perPlant(({ fillMs }) => fillMs * 1e3).replaceAll(/(\.\d)\d*/g, "$1"),
    describeGaps(full.map(({ gaps }) => gaps)),
    describeGaps(empty.map(({ gaps }) => gaps)),
    describeGaps(full.map(({ ownGaps }) => ownGaps)),
    describeGaps(empty.map(({ ownGaps }) => ownGaps)),
  ];
}

function describeGaps(runs: readonly (readonly number[])[]): string {
  const count = median(runs.map((gaps) => gaps.length));
  const longest = median(runs.map((gaps) => gaps[0] ?? 0));
  return count === 0 ? "0" : `${count}, ${longest.toFixed(0)} ms`;
}

/** Creates per second of a server with many plants against one with none. */
async function measureCreates(folder: string): Promise<void> {
  const size = positive(options.store, isFull ? 2e7 : 2e6);
  const full = path.join(folder, "many");
  const log = new LineCounter(path.join(full, "plants.jsonl"));
  generateStore(full, size);
  const starts: Start[] = [
    withNewData(startServer, { name: "no plants" }),
    () => startServer({ name: `${formatRound(size)} plants`, folder: full }),
  ];
  const connections = positives(options.connections, [256]);
  const seconds = positive(options.seconds, 2);
  const rows = await compare(starts, { folder, connections, restarts: 3, runs, seconds });
  process.stdout.write(`${formatRows(rows)}\n`);
  const measureMemory = async (targets: readonly Target[]) => {
    log.look();
    for (const target of targets) {
      await repeatRefused(target.name, () => measure(target, Math.max(...connections), seconds));
    }
    const [none = 0, many = 0] = targets.map((target) => target.residentBytes().now);
    return (many - none) / log.lines;
  };
  const perPlant: number[] = [];
  for (let round = 0; round < runs; round++) {
    perPlant.push(await withNewTargets(path.join(folder, "memory"), starts, measureMemory));
  }
  const memory = formatSpread(spread(perPlant), 1);
  process.stdout.write(`Resident above the server without: ${memory} bytes a plant.\n\n`);
  fs.rmSync(full, { recursive: true, force: true });
}

/** `get` of a random plant, and `export` of all, of which the start of Node is a part. */
async function measureReading(folder: string): Promise<void> {
  const size = positive(options.log, isFull ? 1e7 : 2e6);
  const data = path.join(folder, "reading");
  generateStore(data, size);
  const program = fileURLToPath(new URL("./programs/get-plants.mjs", import.meta.url));
  const gets: { p50: number; p99: number }[] = [];
  const speeds: number[] = [];
  for (let round = 0; round < runs; round++) {
    note(`reading of ${formatRound(size)}, round ${round + 1} of ${runs}`);
    const args = [program, DIST, data, String(size), "20000"];
    gets.push(JSON.parse(await runNode(args, { wrapper: pinned(0) })));
    speeds.push(await exportSpeed(data, size));
  }
  const rows = [
    ["get of a random plant, median µs", formatSpread(spread(gets.map(({ p50 }) => p50)), 1)],
    ["get of a random plant, p99 µs", formatSpread(spread(gets.map(({ p99 }) => p99)), 1)],
    ["export, not pinned, MB/s of log", formatSpread(spread(speeds), 0)],
  ];
  process.stdout.write(`${formatTable([`reading of ${formatRound(size)}`, ""], rows)}\n`);
  fs.rmSync(data, { recursive: true, force: true });
}

async function exportSpeed(data: string, size: number): Promise<number> {
  const words = [process.execPath, builtMain(ROOT), "export", "--data", data];
  const start = performance.now();
  await runToEnd(["sh", "-c", '"$@" > /dev/null', "sh", ...words]);
  return logBytes(size) / 1e6 / ((performance.now() - start) / 1000);
}
