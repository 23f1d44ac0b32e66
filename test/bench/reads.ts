/**
 * Repeats and reads of plants in a store that has just created them, compared with its creates and with the floor.
 *
 *   npm run bench -- reads
 *
 * Each round has fresh processes, as in creates.ts.
 */
import path from "node:path";
import { create, load, loadName } from "./load.ts";
import { note, type Server, startFloor, startStore, withFolder } from "./programs.ts";
import { describeMachine, formatSpread, numbers, printTable, readOptions } from "./report.ts";

const options = readOptions({
  connections: "numbers of connections (64,256)",
  rounds: "samples at each number of connections (7)",
  seconds: "of a sample (3)",
  warm: "seconds of creates before the first sample (10)",
});
const seconds = Number(options.seconds ?? 3);
const warmSeconds = Number(options.warm ?? 10);

async function measure(connections: number, folder: string) {
  const floor = await startFloor(folder);
  const store = await startStore()(path.join(folder, "data"));
  try {
    const warm = (server: Server) => create(server, connections, warmSeconds);
    await warm(floor);
    const { firstId, requests } = await warm(store);
    const old = { firstId: firstId + 1, count: requests >> 1 }; // wrk drops its first request
    const creates = await create(store, connections, seconds);
    const repeats = await load(store, connections, seconds, { kind: "repeat", ...old });
    const reads = await load(store, connections, seconds, { kind: "get", ...old });
    const bare = await load(floor, connections, seconds);
    return {
      repeats: repeats.perSecond / creates.perSecond,
      reads: reads.perSecond / bare.perSecond,
    };
  } finally {
    await Promise.all([floor.stop(), store.stop()]);
  }
}

const rounds = Number(options.rounds ?? 7);
const rows: string[][] = [];
for (const connections of numbers(options.connections ?? "64,256")) {
  const samples: { readonly repeats: number; readonly reads: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    note(`${connections} connections, round ${round + 1} of ${rounds}`);
    samples.push(await withFolder((folder) => measure(connections, folder)));
  }
  rows.push([
    String(connections),
    formatSpread(samples.map(({ repeats }) => repeats)),
    formatSpread(samples.map(({ reads }) => reads)),
  ]);
}
process.stdout.write(`${describeMachine()}, load by ${loadName}\n\n`);
printTable(["connections", "repeats / creates", "reads by id / floor"], rows);
