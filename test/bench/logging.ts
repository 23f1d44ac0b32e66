/**
 * What the log of requests costs creates, told by one server at a time: for a
 * turn of a tenth of a second it logs, and for the next it does not. So what
 * `bench:slices -- --logged` tells within a hundredth or two, because two
 * processes of one program differ by more than a log costs, shows within half
 * of one.
 *
 *   npm run bench:logging -- --restarts 10
 *   npm run bench:logging -- --watched
 *
 * Each start is one sample: the median of its turns. The server warms up by
 * turns, too, or V8 would have made its code for one of them. A start counts
 * only if creates passed what support/compare asks of them, and if about half
 * of them were logged. With `--watched` the metrics of requests come and go with
 * the log; an admin listener is scraped all the time, in both kinds of turn.
 */
import fs from "node:fs";
import path from "node:path";
import { measureBeside, repeatRefused, WARM_SECONDS } from "./support/compare.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { formatSpread, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { formatTable } from "./support/table.ts";
import { startLoggingServer, startWatchedServer } from "./support/targets.ts";
import { TURNS_SECONDS_MIN, takeTurns } from "./support/turns.ts";

const options = readOptions({
  restarts: "how often the server is started (6)",
  seconds: "whole seconds of creates that count, of each start (40)",
  connections: "numbers of connections (64,256)",
  node: "another Node binary to measure with",
  watched: "switch: with an admin listener that is scraped, and metrics",
  dir: "where to make the data directories (the system's folder for such)",
});

/** Lines leave within 20 ms. The shorter turns are, the more of them there are to compare. */
const SHORT_TURNS = { turn: 110, passing: 30 };
const HIDE_LISTENERS = new URL("programs/hide-listeners.mjs", import.meta.url).href;

const places = positives(options.connections, [64, 256]);
const restarts = positive(options.restarts, 6);
const seconds = positive(options.seconds, 40);
if (seconds < TURNS_SECONDS_MIN) {
  throw new RangeError(`--seconds: expected at least ${TURNS_SECONDS_MIN}, got ${seconds}`);
}

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\nload: ${loadName}\n\n`);
  const shares = new Map(places.map((connections) => [connections, [] as number[]]));
  for (let restart = 1; restart <= restarts; restart++) {
    for (const [connections, known] of shares) {
      note(`start ${restart} of ${restarts}, ${connections} connections`);
      known.push(await repeatRefused("the server", () => measureStart(folder, connections)));
    }
  }
  const head = ["connections", "creates with the log / without, median of starts (min-max)"];
  const rows = [...shares].map(([connections, known]) => {
    return [String(connections), formatSpread(spread(known), 3)];
  });
  process.stdout.write(`${formatTable(head, rows)}\n`);
});

/** The rate of creates while requests are logged, of that while they are not. */
async function measureStart(parent: string, connections: number): Promise<number> {
  const folder = fs.mkdtempSync(path.join(parent, "start-"));
  const start = options.watched === undefined ? startLoggingServer : startWatchedServer;
  const nodeArgs = ["--import", HIDE_LISTENERS];
  const target = await start({ name: "server", folder, node: options.node, nodeArgs });
  const log = path.join(folder, "plants.jsonl");
  const comeAndGo = {
    on: () => target.tell("show listeners"),
    off: () => target.tell("hide listeners"),
  };
  const begin = () => takeTurns(log, comeAndGo, SHORT_TURNS);
  let creates = 0;
  let share = Number.NaN;
  try {
    for (const length of [WARM_SECONDS, seconds]) {
      const { sample, beside } = await measureBeside(target, connections, length, begin);
      creates += sample.records;
      share = beside;
    }
  } finally {
    await target.stop();
  }
  const lines = await target.lines;
  if (lines > creates / 4 && lines < (creates * 3) / 4) return share;
  throw new Error(`${lines} of ${creates} creates were logged, which is not about half`);
}
