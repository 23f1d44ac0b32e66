/**
 * Shows that a slow disk does not make the whole server slow. `strace` delays
 * every sync of the log by some milliseconds. While clients create plants, a
 * prober on a connection of its own sends requests that need no disk (a create
 * without a token: 401) every few milliseconds. If those are answered at once, the
 * event loop is free; if the rate of creates falls by less than the disk, batches
 * grow.
 *
 * For comparison, a second prober asks an idle floor on the same core: the time
 * that the machine alone takes. In a run of its own the same floor is asked while
 * it is under the load of the creates: it stores nothing, so it is busy where the
 * store would wait for its disk.
 *
 *   npm run bench -- slow-disk
 */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { askAgain } from "./support/ask-again.ts";
import { measure, measureBeside, WARM_SECONDS } from "./support/compare.ts";
import { describeMachine, isInstalled, withFolder } from "./support/machine.ts";
import { formatCount } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { formatTable } from "./support/table.ts";
import { startFloor, startServer, type Target, withTargets } from "./support/targets.ts";
import type { Ongoing } from "./support/until-stopped.ts";

const options = readOptions({
  delays: "milliseconds that each sync is held up (0,2,10,100)",
  connections: "numbers of connections that create (16,64,256)",
  seconds: "whole seconds of a run (5)",
  dir: "where to make the data directories (the system's temporary folder)",
});

const PROBE_INTERVAL_MS = 5;

const connectionCounts = positives(options.connections, [16, 64, 256]);

if (!isInstalled("strace")) throw new Error("strace is needed to slow a disk down");
await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\n\n`);
  const rows: string[][] = [];
  const delays = positives(options.delays?.replace(/^0,/, ""), [2, 10, 100]);
  for (const delayMs of [0, ...delays]) {
    rows.push(...(await measureDelay(path.join(folder, String(delayMs)), delayMs)));
  }
  const head = ["sync +ms", "connections", "creates/s", "records a sync", "p50 ms", "p99 ms"];
  const probes = ["401", "idle floor", "busy floor"].flatMap((what) =>
    ["p50", "p99", "max"].map((which) => `${what} ${which} ms`),
  );
  process.stdout.write(`${formatTable([...head, ...probes], rows)}\n`);
});

function measureDelay(folder: string, delayMs: number): Promise<string[][]> {
  return withTargets(async (targets) => {
    const slow = await startSlow(folder, delayMs);
    targets.push(slow);
    const floor = await startFloor();
    targets.push(floor);
    for (const target of [slow, floor])
      await measure(target, Math.max(...connectionCounts), WARM_SECONDS);
    const rows: string[][] = [];
    for (const connections of connectionCounts) {
      rows.push([String(delayMs), String(connections), ...(await load(slow, floor, connections))]);
    }
    return rows;
  });
}

function startSlow(folder: string, delayMs: number): Promise<Target> {
  const log = path.join(folder, "plants.jsonl");
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(log, "", { mode: 0o600, flag: "a" }); // so that strace knows the file
  const delay = `inject=write:delay_enter=${delayMs * 1000}`;
  const flags = ["-f", "--seccomp-bpf", "-qq", "-P", log, "-e", "trace=write", "-o", "/dev/null"];
  const wrapper = ["strace", ...flags, ...(delayMs > 0 ? ["-e", delay] : [])];
  // io_uring would hide the calls from strace.
  return startServer({ name: "slow", folder, wrapper, env: { UV_USE_IO_URING: "0" } });
}

async function load(slow: Target, floor: Target, connections: number): Promise<string[]> {
  const seconds = positive(options.seconds, 5);
  const run = await measureBeside(slow, connections, seconds, () => {
    const probers = [probe(slow.port, 401), probe(floor.port, 200)];
    return { stop: () => Promise.all(probers.map((prober) => prober.stop())) };
  });
  const busy = await measureBeside(floor, connections, seconds, () => probe(floor.port, 200));
  const { perSecond, records, syncs, p50Ms, p99Ms } = run.sample;
  const probes = [...run.beside, busy.beside].flatMap(quantiles);
  return [
    formatCount(perSecond),
    (records / syncs).toFixed(1),
    ...[p50Ms, p99Ms, ...probes].map((ms) => ms.toFixed(1)),
  ];
}

function probe(port: number, status: number): Ongoing<number[]> {
  const create = { port, host: "127.0.0.1", method: "POST", path: "/plants" };
  return askAgain(create, status, PROBE_INTERVAL_MS);
}

/** The median, the 99th percentile and the maximum. */
function quantiles(answers: readonly number[]): number[] {
  const sorted = answers.toSorted((a, b) => a - b);
  return [0.5, 0.99, 1].map((share) => sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN);
}
