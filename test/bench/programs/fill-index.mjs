/**
 * Fills an id index from 0 to N, a slice per turn of the event loop, or runs the
 * same loop with an empty index. Reports the memory, and how long the loop was
 * blocked.
 *
 * Usage: node --expose-gc fill-index.mjs MODULE N full|empty KIND [MS]
 * MODULE is the built index. KIND of ids: scattered, sequential or modulo. The
 * empty loop runs for MS milliseconds, because other work on the machine takes the
 * processor away a certain number of times per second. Prints one line of JSON:
 * resident and peak resident bytes, `arrayBuffers`, milliseconds for N, the gaps
 * between turns above 10 ms, longest first, and the processor time of the gaps in
 * which this process itself was busy for that long.
 */
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [module, count, mode, kind, minimumMs = "0"] = process.argv.slice(2);
const { IdIndex } = await import(pathToFileURL(path.resolve(module)).href);

const ADDS_PER_TURN = 1000;
const LINE_BYTES = 64;
const GAP_MS = 10;
const index = new IdIndex();
const isFull = mode === "full";
const id = new BigInt64Array(1);
const halves = new Uint32Array(id.buffer);

/** No id comes twice. `modulo`: all are equal modulo 2^32. */
const setId = {
  sequential: (at) => {
    halves[0] = at;
  },
  scattered: (at) => {
    halves[0] = Math.imul(at, 2_654_435_761);
    halves[1] = Math.imul(at, 2_246_822_519);
  },
  modulo: (at) => {
    halves[0] = 7;
    halves[1] = at;
  },
}[kind];

/** What this process has used of the processors, its helper threads too. */
const usedMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

// The first moves of a process run uncompiled, 14 ms for a turn of them: not what is asked here.
const warm = new IdIndex();
for (let done = 0; done < 200_000; done++) {
  setId(done);
  warm.add(id[0], done);
}

let sink = 0n;
let fillMs = 0;
const gaps = [];
const ownGaps = [];
globalThis.gc();
const start = performance.now();
let last = start;
let lastUsed = usedMs();
for (let done = 0; done < Number(count) || last - start < Number(minimumMs); ) {
  const end = done + ADDS_PER_TURN;
  for (; done < end; done++) {
    setId(done);
    if (isFull) index.add(id[0], done * LINE_BYTES);
    else sink ^= id[0];
  }
  await new Promise(setImmediate);
  const now = performance.now();
  const used = usedMs();
  if (now - last > GAP_MS) gaps.push(now - last);
  if (Math.min(now - last, used - lastUsed) > GAP_MS) ownGaps.push(used - lastUsed);
  last = now;
  lastUsed = used;
  if (end === Number(count)) fillMs = now - start;
}
const ms = last - start;
if (isFull && index.size !== Number(count)) throw new Error(`it holds ${index.size}`);
globalThis.gc();
globalThis.gc();
await new Promise((resolve) => setTimeout(resolve, 100)); // freed pages go back meanwhile
const { rss, arrayBuffers } = process.memoryUsage();
const peak = /VmHWM:\s+([0-9]+)/.exec(fs.readFileSync("/proc/self/status", "utf8"));
for (const list of [gaps, ownGaps]) list.sort((a, b) => b - a);
const memory = { rss, peak: Number(peak[1]) * 1024, arrayBuffers };
process.stdout.write(`${JSON.stringify({ ...memory, fillMs, ms, gaps, ownGaps })}\n`);
// Keeps them alive up to here.
if (index.size + warm.size === -1 || sink === 1n) process.exitCode = 1;
