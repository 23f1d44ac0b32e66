/**
 * Durable creates per second, compared with the floor: a bare `node:http` server that reads the body and answers a
 * constant. Beside the store: its listener mounted in another server, and fastify with better-sqlite3.
 *
 *   npm run bench -- creates
 *   npm run bench -- creates --against ../other-checkout   (built there before)
 *
 * Programs take turns, and each sample is a fresh process that warms up first, because two processes of one program
 * differ by a quarter for as long as they live. A ratio is that of two samples of one round.
 */
import path from "node:path";
import { create, loadName } from "./load.ts";
import {
  note,
  type Start,
  startFloor,
  startMounted,
  startPeer,
  startStore,
  withFolder,
} from "./programs.ts";
import {
  describeMachine,
  formatSpread,
  median,
  numbers,
  printTable,
  readOptions,
} from "./report.ts";

const options = readOptions({
  connections: "numbers of connections (64,256,1024)",
  rounds: "samples of each program at each number of connections (7)",
  seconds: "of a sample (3)",
  warm: "seconds of load before a sample (8)",
  against: "another built checkout, measured beside this one",
  only: "programs with this in their name, and the floor",
});
const seconds = Number(options.seconds ?? 3);
const warmSeconds = Number(options.warm ?? 8);

const PROGRAMS: Readonly<Record<string, Start>> = {
  floor: startFloor,
  "plant store": startStore(),
  mounted: startMounted,
  "fastify + better-sqlite3": startPeer,
  ...(options.against === undefined ? {} : { "other checkout": startStore(options.against) }),
};

interface Sample {
  readonly perSecond: number;
  readonly p50Ms: number;
  /** Of the server, for each request. */
  readonly cpuUs: number;
}

async function measure(start: Start, connections: number): Promise<Sample> {
  return withFolder(async (folder) => {
    const server = await start(path.join(folder, "data"));
    try {
      await create(server, connections, warmSeconds);
      const before = server.cpuUs();
      const { perSecond, p50Ms, requests } = await create(server, connections, seconds);
      return { perSecond, p50Ms, cpuUs: (server.cpuUs() - before) / requests };
    } finally {
      await server.stop();
    }
  });
}

const names = Object.keys(PROGRAMS).filter((name) => {
  return name === "floor" || name.includes(options.only ?? "");
});
const rounds = Number(options.rounds ?? 7);
const rows: string[][] = [];
for (const connections of numbers(options.connections ?? "64,256,1024")) {
  const samples = new Map<string, Sample[]>(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    note(`${connections} connections, round ${round + 1} of ${rounds}`);
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + round) % names.length] ?? "";
      samples.get(name)?.push(await measure(PROGRAMS[name] as Start, connections));
    }
  }
  for (const [name, own] of samples) {
    const ratioTo = (other: string) => {
      const others = samples.get(other) ?? [];
      return formatSpread(own.map(({ perSecond }, at) => perSecond / (others[at]?.perSecond ?? 0)));
    };
    rows.push([
      String(connections),
      name,
      Math.round(median(own.map(({ perSecond }) => perSecond))).toLocaleString("en-US"),
      ratioTo("floor"),
      ratioTo("plant store"),
      median(own.map(({ p50Ms }) => p50Ms)).toFixed(2),
      median(own.map(({ cpuUs }) => cpuUs)).toFixed(1),
    ]);
  }
}
process.stdout.write(`${describeMachine()}, load by ${loadName}\n\n`);
printTable(
  ["connections", "program", "creates/s", "/ floor", "/ plant store", "p50 ms", "CPU µs"],
  rows,
);
