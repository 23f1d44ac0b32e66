/**
 * Load on several servers by turns of a fraction of a second, over connections
 * that stay open: other work of the machine affects neighbouring slices alike.
 *
 * Usage: node slices.mjs OPTIONS, which is JSON: `servers` (as Connections has
 * them), `connections`, `rounds`, and `ms`, the length of a slice.
 * Prints one line of JSON: for each server its requests, its failures, and the
 * requests per second of each round.
 */
import { Connections } from "./connections.mjs";

const { servers, connections, rounds, ms } = JSON.parse(process.argv[2]);
const results = servers.map(() => ({ requests: 0, failures: 0, perSecond: [] }));
const all = servers.map((server) => new Connections(server));
for (const each of all) await each.open(connections);
for (let round = 0; round < rounds; round++) {
  for (let turn = 0; turn < all.length; turn++) {
    const index = (turn + round) % all.length;
    const { latencies, failures, us } = await all[index].run(ms);
    const result = results[index];
    result.requests += latencies.length;
    result.failures += failures;
    result.perSecond.push(latencies.length / (us / 1e6));
  }
}
for (const each of all) each.close();
process.stdout.write(`${JSON.stringify(results)}\n`);
