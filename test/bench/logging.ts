/**
 * The cost of the log of requests: one server logs for a tenth of a second, does
 * not log for the next, and so on. Two processes of one program differ by more
 * than a log costs, so this is more exact than `npm run bench -- slices --logged`: to one
 * percent or less, with enough starts.
 *
 *   npm run bench -- logging --restarts 10
 *   npm run bench -- logging --watched
 *
 * Each start is one sample: the median of its turns. The server also warms up by
 * turns, because V8 optimises the code for what it has seen. A start counts only
 * if its creates passed the checks of support/compare and about half of them were
 * logged. A cost that falls on both kinds of turn, such as a full garbage
 * collection, does not show. With `--watched` the metrics of requests are switched
 * with the log; an admin listener is scraped during both kinds of turn.
 */
import path from "node:path";
import { measureBeside, repeatRefused, WARM_SECONDS } from "./support/compare.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { formatSpread, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { formatTable } from "./support/table.ts";
import {
  type LoggingTarget,
  startLoggingServer,
  startWatchedServer,
  type Target,
  type TargetOptions,
  withNewData,
  withNewTargets,
} from "./support/targets.ts";
import { takeTurns } from "./support/turns.ts";

const options = readOptions({
  restarts: "how often the server is started (6)",
  seconds: "whole seconds of creates that count, of each start (40)",
  connections: "numbers of connections (64,256)",
  node: "another Node binary to measure with",
  watched: "switch: with an admin listener that is scraped, and metrics",
  dir: "where to make the data directories (the system's temporary folder)",
});

/** Lines leave within 20 ms. The shorter turns are, the more of them there are to compare. */
const SHORT_TURNS = { turn: 110, passing: 30 };
const HIDE_LISTENERS = new URL("programs/hide-listeners.mjs", import.meta.url).href;

/** From here on more than 0.4 of all creates are logged, although the load begins twice, for 2 s, without. */
const SECONDS_MIN = 20;

const connectionCounts = positives(options.connections, [64, 256]);
const restarts = positive(options.restarts, 6);
const seconds = positive(options.seconds, 40);
if (seconds < SECONDS_MIN) {
  throw new RangeError(`--seconds: expected at least ${SECONDS_MIN}, got ${seconds}`);
}

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\nload: ${loadName}\n\n`);
  const shares = new Map(connectionCounts.map((connections) => [connections, [] as number[]]));
  for (let restart = 1; restart <= restarts; restart++) {
    for (const [connections, known] of shares) {
      note(`start ${restart} of ${restarts}, ${connections} connections`);
      const own = path.join(folder, "start");
      known.push(await repeatRefused("the server", () => measureStart(own, connections)));
    }
  }
  const what = options.watched === undefined ? "the log" : "the log and metrics";
  const head = ["connections", `creates with ${what} / without, median of starts (min-max)`];
  const rows = [...shares].map(([connections, known]) => {
    return [String(connections), formatSpread(spread(known), 3)];
  });
  process.stdout.write(`${formatTable(head, rows)}\n`);
});

/** The rate of creates while requests are logged, divided by the rate while they are not. */
async function measureStart(folder: string, connections: number): Promise<number> {
  const startOne = options.watched === undefined ? startLoggingServer : startWatchedServer;
  let started: LoggingTarget | undefined;
  let data = "";
  const startKept = async (given: TargetOptions) => {
    data = given.folder;
    started = await startOne(given);
    return started;
  };
  const nodeArgs = ["--import", HIDE_LISTENERS];
  const start = withNewData(startKept, { name: "server", node: options.node, nodeArgs });
  const measure = ([target]: readonly Target[]) => {
    return measureTurns(target as Target, data, connections);
  };
  const { creates, share } = await withNewTargets(folder, [start], measure);
  const lines = (await started?.lines) ?? 0;
  if (lines > creates * 0.4 && lines < creates * 0.6) return share;
  throw new Error(`${lines} of ${creates} creates were logged, which is not about half`);
}

async function measureTurns(target: Target, data: string, connections: number) {
  const log = path.join(data, "plants.jsonl");
  const logging = {
    on: () => target.send("show listeners"),
    off: () => target.send("hide listeners"),
  };
  const begin = () => takeTurns(log, logging, SHORT_TURNS);
  let creates = 0;
  let share = Number.NaN;
  for (const length of [WARM_SECONDS, seconds]) {
    const { sample, beside } = await measureBeside(target, connections, length, begin);
    creates += sample.records;
    share = beside;
  }
  return { creates, share };
}
