/**
 * Opens a store and gets random plants from it, one after the other.
 *
 * Usage: node get-plants.mjs DIST DATA_DIRECTORY LINES GETS
 * LINES determines which ids a generated log holds (see generate.ts). Prints one
 * line of JSON: median and 99th percentile in microseconds, after a warm-up.
 */
import path from "node:path";
import { pathToFileURL } from "node:url";

const [dist, data, lines, gets] = process.argv.slice(2);
const { PlantStore } = await import(pathToFileURL(path.resolve(dist, "index.js")).href);

const store = await PlantStore.open(data);
const samples = [];
for (let count = -Number(gets) / 2; count < Number(gets); count++) {
  const line = Math.floor(Math.random() * Number(lines));
  const id = BigInt(10_000_000_000 + (Math.imul(line, 2_654_435_761) >>> 0));
  const start = performance.now();
  const plant = await store.get(id);
  if (count >= 0) samples.push((performance.now() - start) * 1000);
  if (plant?.id !== id) throw new Error(`there is no ${id}`);
}
await store.close();
samples.sort((a, b) => a - b);
const [p50, p99] = [0.5, 0.99].map((share) => samples[Math.floor(samples.length * share)]);
process.stdout.write(`${JSON.stringify({ p50, p99 })}\n`);
