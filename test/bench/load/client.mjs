/**
 * The load where `wrk` is not installed.
 *
 * It runs in Node, so it may be slower than the server that it loads. Ratios then
 * come out too near to 1, so `wrk` is preferred.
 *
 * Usage: node client.mjs PORT TOKEN CONNECTIONS SECONDS FIRST_ID KIND [IDS]
 * Prints one line of JSON like the script for wrk.
 */
import { Connections } from "./connections.mjs";

const [port, token, count, seconds, firstId, kind, ids] = process.argv.slice(2);
const server = { port: Number(port), token, firstId: Number(firstId) };
const connections = new Connections({ ...server, kind, ids: Number(ids) });
await connections.open(Number(count));
const { latencies, failures, us } = await connections.run(Number(seconds) * 1000);
connections.close();
const sorted = Float64Array.from(latencies).sort();
const [p50, p99] = [0.5, 0.99].map((share) => sorted[Math.floor(sorted.length * share)] ?? 0);
process.stdout.write(`${JSON.stringify({ requests: sorted.length, us, p50, p99, failures })}\n`);
