/**
 * A slow disk is not a slow server: every sync of the log is held up for some
 * milliseconds by `strace`, and while clients create plants a prober asks for
 * what needs no disk (a create without a token: 401), every few milliseconds
 * on a connection of its own. The loop is free where those answers come at
 * once; the batches grow where throughput does not fall with the disk.
 *
 *   npm run bench:slow-disk
 */
import path from "node:path";
import { type Asking, askAgain } from "./support/ask-again.ts";
import { measure } from "./support/compare.ts";
import { describeMachine, isInstalled, withFolder } from "./support/machine.ts";
import { formatCount } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { formatTable } from "./support/table.ts";
import { startServer, type Target } from "./support/targets.ts";

const options = readOptions({
  delays: "milliseconds that each sync is held up (0,2,10,100)",
  connections: "numbers of connections that create (16,64,256)",
  seconds: "whole seconds of a run (5)",
  dir: "where to make the data directories (the system's folder for such)",
});

const PROBE_INTERVAL_MS = 5;

if (!isInstalled("strace")) throw new Error("strace is needed to slow a disk down");
await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\n\n`);
  const rows: string[][] = [];
  const delays = positives(options.delays?.replace(/^0,/, ""), [2, 10, 100]);
  for (const delayMs of [0, ...delays]) {
    const target = await startSlow(path.join(folder, String(delayMs)), delayMs);
    for (const connections of positives(options.connections, [16, 64, 256])) {
      rows.push(await measureBeside(target, delayMs, connections));
    }
    await target.stop();
  }
  const head = ["sync +ms", "connections", "creates/s", "records a sync", "p50 ms", "p99 ms"];
  const probe = ["401 p50 ms", "401 p99 ms", "401 max ms"];
  process.stdout.write(`${formatTable([...head, ...probe], rows)}\n`);
});

function startSlow(folder: string, delayMs: number): Promise<Target> {
  // The log is the only file that is written at an offset.
  const delay = `inject=pwrite64:delay_enter=${delayMs * 1000}`;
  const flags = ["-f", "--seccomp-bpf", "-qq", "-e", "trace=pwrite64", "-o", "/dev/null"];
  const wrapper = ["strace", ...flags, ...(delayMs > 0 ? ["-e", delay] : [])];
  // io_uring would hide the calls from strace.
  return startServer({ name: "slow", folder, wrapper, env: { UV_USE_IO_URING: "0" } });
}

async function measureBeside(
  target: Target,
  delayMs: number,
  connections: number,
): Promise<string[]> {
  const prober = probe(target.port);
  const seconds = positive(options.seconds, 5);
  const { perSecond, records, syncs, p50Ms, p99Ms } = await measure(target, connections, seconds);
  const answers = (await prober.stop()).sort((a, b) => a - b);
  const at = (share: number) => answers[Math.ceil(share * answers.length) - 1] ?? Number.NaN;
  return [
    ...[delayMs, connections].map(String),
    formatCount(perSecond),
    (records / syncs).toFixed(1),
    ...[p50Ms, p99Ms, at(0.5), at(0.99), at(1)].map((ms) => ms.toFixed(1)),
  ];
}

function probe(port: number): Asking {
  const create = { port, host: "127.0.0.1", method: "POST", path: "/plants" };
  return askAgain(create, 401, PROBE_INTERVAL_MS);
}
