/**
 * Durable creates per second, compared with the floor: a bare `node:http` server that reads the body and answers a
 * constant. Beside the store: its listener mounted in another server, and fastify with better-sqlite3.
 *
 *   npm run bench -- creates [--sync-ms 5]
 *
 * Programs take turns, and each sample is a fresh process that warms up first, because two processes of one program
 * differ by a quarter for as long as they live. A ratio is that of two samples of one round. With `--sync-ms` each sync
 * takes so much longer than the disk needs.
 */
import path from "node:path";
import { create, type Load } from "./load.ts";
import type { Start } from "./programs.ts";
import {
  slowDownSyncs,
  startFloor,
  startMounted,
  startPeer,
  startStore,
  withFolder,
} from "./programs.ts";
import { formatSpread, median, printTable, readOptions } from "./report.ts";

const options = readOptions({
  connections: "64,256,1024",
  rounds: "7",
  seconds: "3",
  warm: "8",
  "sync-ms": "0",
});
if (options.number("sync-ms") > 0) slowDownSyncs(options.number("sync-ms"));
const PROGRAMS: Readonly<Record<string, Start>> = {
  floor: startFloor,
  "plant store": startStore,
  mounted: startMounted,
  "fastify + better-sqlite3": startPeer,
};

function measure(name: string, connections: number): Promise<Load> {
  return withFolder(async (folder) => {
    const server = await (PROGRAMS[name] as Start)(path.join(folder, "data"));
    await create(server, connections, options.number("warm"));
    const sample = await create(server, connections, options.number("seconds"));
    await server.stop();
    return sample;
  });
}

const names = Object.keys(PROGRAMS);
const rows: string[][] = [];
for (const connections of options.numbers("connections")) {
  const samples = new Map<string, Load[]>(names.map((name) => [name, []]));
  for (let round = 0; round < options.number("rounds"); round++) {
    console.error(`${connections} connections, round ${round + 1} of ${options.text("rounds")}`);
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + round) % names.length] ?? "";
      samples.get(name)?.push(await measure(name, connections));
    }
  }
  for (const [name, own] of samples) {
    const ratioTo = (other: string) => {
      const others = samples.get(other) ?? [];
      return formatSpread(own.map(({ perSecond }, at) => perSecond / (others[at]?.perSecond ?? 0)));
    };
    rows.push([
      `${connections}`,
      name,
      Math.round(median(own.map(({ perSecond }) => perSecond))).toLocaleString("en-US"),
      ratioTo("floor"),
      ratioTo("plant store"),
      median(own.map(({ p50Ms }) => p50Ms)).toFixed(2),
    ]);
  }
}
printTable(["connections", "program", "creates/s", "/ floor", "/ plant store", "p50 ms"], rows);
