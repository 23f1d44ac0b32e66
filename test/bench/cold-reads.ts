/**
 * Reads of random plants from a log that is not in the page cache, compared with the same reads
 * from a log that is.
 *
 *   npm run bench -- cold-reads
 *   npm run bench -- cold-reads --against ../other-checkout   (built there before)
 *
 * The names are long, so that a run reads few pages twice. The servers and the caches take turns,
 * and each number is a median.
 */
import fs from "node:fs";
import path from "node:path";
import { WARM_SECONDS } from "./support/compare.ts";
import { load, loadName } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { formatCount, formatSpread, median, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { readWithDd, runToEnd } from "./support/program.ts";
import { formatTable } from "./support/table.ts";
import { ROOT, startServer, type Target, withTargets } from "./support/targets.ts";

const options = readOptions({
  plants: "how many plants of some 1,000 bytes the log has (300_000)",
  connections: "numbers of connections (64,256)",
  seconds: "whole seconds of a run (2)",
  runs: "rounds (5)",
  against: "another built checkout, measured beside this one",
  dir: "where to make the data directories (the system's temporary folder)",
});

/** As many digits as those of the load. */
const FIRST_ID = 1_000_000_000_000_000;
const NAME = "Fern ".repeat(190);

const count = positive(options.plants, 300_000);
const seconds = positive(options.seconds, 2);
const runs = positive(options.runs, 5);
const connectionCounts = positives(options.connections, [64, 256]);

await withFolder(options.dir, async (folder) => {
  const roots = [ROOT, ...(options.against === undefined ? [] : [options.against])];
  const rows = await withTargets(async (targets) => {
    for (const [at, root] of roots.entries()) {
      const name = at === 0 ? "plant store" : "the other";
      targets.push(await startWithPlants(name, path.join(folder, name), root));
    }
    for (const target of targets) await read(target, Math.max(...connectionCounts), WARM_SECONDS);
    const rows: string[][] = [];
    for (const connections of connectionCounts) {
      rows.push(...(await measureAll(folder, targets, connections)));
    }
    return rows;
  });
  const head = ["server", "connections", "warm reads/s", "cold reads/s", "cold / warm"];
  process.stdout.write(`${describeMachine(folder)}\nload: ${loadName}\n\n`);
  process.stdout.write(`${formatTable(head, rows)}\n`);
});

function startWithPlants(name: string, folder: string, root: string): Promise<Target> {
  fs.mkdirSync(folder, { mode: 0o700 });
  const fd = fs.openSync(logOf(folder), "w", 0o600);
  for (let at = 0; at < count; at++) fs.writeSync(fd, `{"id":${FIRST_ID + at},"name":"${NAME}"}\n`);
  fs.closeSync(fd);
  return startServer({ name, folder, scopes: ["write", "read"] }, root);
}

async function measureAll(
  folder: string,
  targets: readonly Target[],
  connections: number,
): Promise<string[][]> {
  const samples = targets.map(() => ({
    warm: [] as number[],
    cold: [] as number[],
    ratios: [] as number[],
  }));
  for (let round = 0; round < runs; round++) {
    note(`  ${connections} connections, round ${round + 1} of ${runs}`);
    for (const [at, target] of targets.entries()) {
      const log = logOf(path.join(folder, target.name));
      await readWithDd(log);
      const warm = await read(target, connections, seconds);
      await dropFromCache(log);
      const cold = await read(target, connections, seconds);
      samples[at]?.warm.push(warm);
      samples[at]?.cold.push(cold);
      samples[at]?.ratios.push(cold / warm);
    }
  }
  return samples.map(({ warm, cold, ratios }, at) => [
    targets[at]?.name ?? "",
    String(connections),
    formatCount(median(warm)),
    formatCount(median(cold)),
    formatSpread(spread(ratios)),
  ]);
}

/** Reads a second. */
async function read(target: Target, connections: number, seconds: number): Promise<number> {
  const { port, token } = target;
  const lookUp = { kind: "get", firstId: FIRST_ID, count } as const;
  return (await load({ port, token, connections, seconds, lookUp })).perSecond;
}

/** Writes nothing: GNU dd advises the kernel to forget the file. */
async function dropFromCache(log: string): Promise<void> {
  const flags = ["count=0", "oflag=nocache", "conv=notrunc,fdatasync"];
  await runToEnd(["dd", "status=none", "if=/dev/null", `of=${log}`, ...flags]);
}

function logOf(folder: string): string {
  return path.join(folder, "plants.jsonl");
}
