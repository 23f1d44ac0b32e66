/**
 * Repeats and reads of plants in a store that has just created them, compared with its creates and with the floor.
 *
 *   npm run bench -- reads
 *
 * Each round has fresh processes, as in creates.ts.
 */
import path from "node:path";
import { create, load } from "./load.ts";
import { startFloor, startStore, withFolder } from "./programs.ts";
import { formatSpread, printTable, readOptions } from "./report.ts";

const options = readOptions({ connections: "64,256", rounds: "7", seconds: "3", warm: "10" });

async function measure(connections: number, folder: string): Promise<[number, number]> {
  const floor = await startFloor(folder);
  const store = await startStore(path.join(folder, "data"));
  const seconds = options.number("seconds");
  await create(floor, connections, options.number("warm"));
  const { firstId, requests } = await create(store, connections, options.number("warm"));
  const old = { firstId: firstId + 1, count: requests >> 1 }; // wrk drops its first request
  const creates = await create(store, connections, seconds);
  const repeats = await load(store, connections, seconds, { kind: "repeat", ...old });
  const reads = await load(store, connections, seconds, { kind: "get", ...old });
  const bare = await load(floor, connections, seconds);
  await Promise.all([floor.stop(), store.stop()]);
  return [repeats.perSecond / creates.perSecond, reads.perSecond / bare.perSecond];
}

const rows: string[][] = [];
for (const connections of options.numbers("connections")) {
  const samples: [number, number][] = [];
  for (let round = 0; round < options.number("rounds"); round++) {
    console.error(`${connections} connections, round ${round + 1} of ${options.text("rounds")}`);
    samples.push(await withFolder((folder) => measure(connections, folder)));
  }
  const spreads = ([0, 1] as const).map((at) => formatSpread(samples.map((sample) => sample[at])));
  rows.push([`${connections}`, ...spreads]);
}
printTable(["connections", "repeats / creates", "reads by id / floor"], rows);
