/**
 * The cost of reading all plants, in speed, in resident memory of the server and
 * in creates. It measures, by turns: a stream of all plants alone, to its end;
 * creates beside a stream that lasts as long as they do, between creates alone;
 * and creates while a stream comes and goes.
 *
 *   npm run bench -- stream                        a million plants
 *   npm run bench -- stream --plants 10_000_000    the size of the promise
 *
 * Each run has a server of its own, which has read the log and become idle; its
 * memory then is what later memory is compared with. Creates warm the server up
 * (see support/compare), and the memory that they take meanwhile counts too. Two
 * processes of one program can differ by a third, so the creates beside a stream
 * are compared within one server: a run with a stream between two without, and
 * turn by turn within one run. Memory is the peak that the kernel reports.
 *
 * A run counts only if a stream alone had as many plants and bytes as the log, and
 * creates passed the checks of support/compare. At the end one more stream has to
 * hold the new plants, too.
 *
 * Beside creates a stream is slow, so a run of seconds ends long before it does;
 * with `--seconds` of some minutes it reaches its end. The index grows meanwhile,
 * at some sizes by 90 bytes per new plant and at others not at all. The table
 * shows how much of the memory is the index; the rest is the bounded memory of the
 * stream.
 */
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { generateStore } from "./generate.ts";
import { measure, measureBeside, repeatRefused, WARM_SECONDS } from "./support/compare.ts";
import { LineCounter } from "./support/line-counter.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { formatCount, formatRound, formatSpread, median, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { readStream, type StreamRead, startReading } from "./support/stream-reader.ts";
import { formatTable } from "./support/table.ts";
import { startServer, type Target, withTargets } from "./support/targets.ts";
import { TURN_TIMES, TURNS_SECONDS_MIN, takeTurns } from "./support/turns.ts";

const options = readOptions({
  plants: "plants in the log at the beginning (1_000_000)",
  runs: "rounds, each of the three kinds once (5)",
  seconds: "whole seconds of a run of creates, after those that warm up (10)",
  connections: "connections that create (256)",
  dir: "where to make the data directory (the system's temporary folder)",
});

/**
 * How long a run of creates is. Node accepts one connection in each turn of the event loop, so for a part
 * of two seconds clients only wait to be accepted; and five seconds have hardly more than a dozen turns
 * (support/turns).
 */
const SECONDS = 10;
/** The longest silence of a stream: during a longer one the creates would have the server alone. */
const SILENCE_MS_MAX = 1000;
const IDLE_CPU_US = 10_000;
const IDLE_LOOKS_MAX = 300;
const MIB = 1024 * 1024;

/** What is measured, by turns. */
const KINDS = {
  "a stream alone": streamAlone,
  "creates beside a stream": createBeside,
  "creates as a stream comes and goes": createByTurns,
} as const;
type Kind = keyof typeof KINDS;

/** Where it is measured. */
interface Place {
  readonly data: string;
  /** Every line of the log. */
  readonly log: LineCounter;
  readonly connections: number;
}

/** What a server holds. */
interface Memory {
  /** Highest resident bytes so far. */
  readonly peakBytes: number;
  /** Of its array buffers, now. */
  readonly bufferBytes: number;
}

/** The results of a run. */
interface Outcome {
  /** The stream, read by turns or all the time. */
  readonly read?: StreamRead;
  /** Creates a second while no stream was read, in runs of their own. */
  readonly alonePerSecond?: number;
  /** Before the stream was read, after as many creates as beside it. */
  readonly aloneMemory?: Memory;
  /** Up to the end of the stream. */
  readonly memory?: Memory;
  /** The rate of creates while a stream was read, divided by the rate while none was. */
  readonly share?: number;
}

interface Run extends Outcome {
  readonly idle: Memory;
}

type Round = Readonly<Record<Kind, Run>>;

/** A promised bound. */
interface Bar {
  readonly text: string;
  readonly isKept: (value: number) => boolean;
}

const MEMORY: Bar = { text: "at most 64", isKept: (mib) => mib <= 64 };
const RATE: Bar = { text: "at least 0.80", isKept: (ratio) => ratio >= 0.8 };

const size = positive(options.plants, 1e6);
const runs = positive(options.runs, 5);
const seconds = positive(options.seconds, SECONDS);
if (seconds < TURNS_SECONDS_MIN) {
  throw new RangeError(`--seconds: expected at least ${TURNS_SECONDS_MIN}, got ${seconds}`);
}

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\nload: ${loadName}\n`);
  const data = path.join(folder, "data");
  const log = new LineCounter(path.join(data, "plants.jsonl"));
  generateStore(data, size);
  for (const connections of positives(options.connections, [256])) {
    const rounds: Round[] = [];
    for (let round = 0; round < runs; round++) {
      rounds.push(await runRound({ data, log, connections }, round));
    }
    process.stdout.write(`\n${describeRounds(connections, rounds)}\n`);
  }
  await withServer(data, (target) => readAll(target, log));
  process.stdout.write(`\nat the end a stream held all ${formatCount(log.lines)} plants\n`);
});

/** Runs every kind once, and again if a run did not count. */
async function runRound(place: Place, round: number): Promise<Round> {
  const kinds = Object.keys(KINDS) as Kind[];
  const done: Partial<Record<Kind, Run>> = {};
  for (let turn = 0; turn < kinds.length; turn++) {
    const kind = kinds[(turn + round) % kinds.length] as Kind;
    note(`${place.connections} connections, round ${round + 1} of ${runs}: ${kind}`);
    done[kind] = await repeatRefused(kind, () => runAnew(kind, place));
  }
  return done as Round;
}

function runAnew(kind: Kind, place: Place): Promise<Run> {
  return withServer(place.data, async (target) => {
    await waitUntilIdle(target);
    target.forgetPeak();
    const idle = await lookAt(target);
    const outcome: Outcome = await KINDS[kind](target, place);
    return { ...outcome, idle };
  });
}

async function withServer<T>(data: string, use: (target: Target) => Promise<T>): Promise<T> {
  return withTargets(async (targets) => {
    const target = await startServer({ name: "server", folder: data, scopes: ["read", "write"] });
    targets.push(target);
    return use(target);
  });
}

/** Waits until the server has nothing left to do by itself. */
async function waitUntilIdle(target: Target): Promise<void> {
  for (let looks = 0; looks < IDLE_LOOKS_MAX; looks++) {
    const before = target.cpuUs();
    await setTimeout(1000);
    if (target.cpuUs() - before < IDLE_CPU_US) return;
  }
  throw new Error("the server does not come to rest");
}

async function lookAt(target: Target): Promise<Memory> {
  const bufferBytes = (await target.arrayBufferBytes?.()) ?? Number.NaN;
  return { peakBytes: target.residentBytes().peak, bufferBytes };
}

async function streamAlone(target: Target, { log }: Place): Promise<Outcome> {
  const read = await readAll(target, log);
  return { read, memory: await lookAt(target) };
}

async function createBeside(target: Target, { connections }: Place): Promise<Outcome> {
  await measure(target, connections, WARM_SECONDS);
  const before = await measure(target, connections, seconds);
  const aloneMemory = await lookAt(target);
  const begin = () => startReading(target);
  const { sample: between, beside: read } = await measureBeside(
    target,
    connections,
    seconds,
    begin,
  );
  const memory = await lookAt(target);
  const after = await measure(target, connections, seconds);
  const alonePerSecond = (before.perSecond + after.perSecond) / 2;
  const share = between.perSecond / alonePerSecond;
  return { alonePerSecond, share, aloneMemory, memory, read: checkSteady(read) };
}

async function createByTurns(target: Target, { data, connections }: Place): Promise<Outcome> {
  await measure(target, connections, WARM_SECONDS);
  const { beside } = await measureBeside(target, connections, seconds, async () => {
    const reading = await startReading(target);
    const turns = takeTurns(path.join(data, "plants.jsonl"), {
      on: reading.begin,
      off: reading.leave,
    });
    const stop = async () => {
      let read: StreamRead | undefined;
      const share = await turns.stop().finally(async () => {
        read = await reading.stop();
      });
      return { share, read };
    };
    return { stop };
  });
  const { share, read } = beside;
  return { read: checkSteady(read, TURN_TIMES.turn - TURN_TIMES.passing), share };
}

/** Reads a stream to its end. @throws Error if it did not contain everything. */
async function readAll(target: Target, log: LineCounter): Promise<StreamRead> {
  log.look();
  const read = await readStream(target);
  if (read.plants === log.lines && read.bytes === log.bytes) return read;
  throw new Error(
    `${log.lines} plants are stored in ${log.bytes} bytes, ${read.plants} in ${read.bytes} came`,
  );
}

function checkSteady(read: StreamRead | undefined, silenceMsMax = SILENCE_MS_MAX): StreamRead {
  if (read === undefined) throw new Error("no stream was read");
  if (read.silenceMs <= silenceMsMax) return read;
  throw new Error(`the stream stood still for ${read.silenceMs.toFixed(0)} ms`);
}

function describeRounds(connections: number, rounds: readonly Round[]): string {
  const of = (kind: Kind, value: (run: Run) => number | undefined) =>
    rounds.map((round) => value(round[kind]) ?? Number.NaN);
  const rises = (kind: Kind, when: "memory" | "aloneMemory" = "memory") =>
    rounds.map(({ [kind]: run }) => riseOf(run[when] as Memory, run.idle));
  const share = (kind: Kind) => of(kind, (run) => run.share);
  const speed = (kind: Kind) => of(kind, ({ read }) => read && read.bytes / 1e3 / read.ms);
  const silence = (kind: Kind) => of(kind, ({ read }) => read?.silenceMs);
  const idle = rounds.flatMap((round) =>
    Object.values(round).map((run) => run.idle.peakBytes / MIB),
  );
  const alone = "a stream alone";
  const beside = "creates beside a stream";
  const byTurns = "creates as a stream comes and goes";
  const perSecond = of(beside, (run) => run.alonePerSecond);
  const thousands = of(beside, ({ read }) => read && read.plants / 1e3);
  const title = `${connections} connections, ${formatRound(size)} plants at the beginning`;
  return formatTable(
    [title, "median (min-max)", "bar", "in the median", "in every run"],
    [
      line("resident when idle, MiB", idle),
      ...memoryLines("a stream alone", rises(alone), { all: MEMORY }),
      ...memoryLines("creates alone", rises(beside, "aloneMemory")),
      ...memoryLines("creates beside a stream", rises(beside), { rest: MEMORY }),
      line("creates/s alone", perSecond, 0),
      line("creates beside a stream / before and after it", share(beside), 2, RATE),
      line("creates while a stream is read / while none is", share(byTurns), 2, RATE),
      line("a stream alone, MB/s", speed(alone)),
      line("a stream beside creates, MB/s", speed(beside)),
      line("a stream that comes and goes, MB/s", speed(byTurns)),
      line("a stream beside creates, thousand plants", thousands, 0),
      line("longest silence of a stream alone, ms", silence(alone), 0),
      line("longest silence of a stream beside creates, ms", silence(beside), 0),
    ],
  );
}

/** How far memory has risen since the server was idle. */
function riseOf(memory: Memory, idle: Memory): Memory {
  return {
    peakBytes: memory.peakBytes - idle.peakBytes,
    bufferBytes: memory.bufferBytes - idle.bufferBytes,
  };
}

/**
 * The memory above that of an idle server, and how much of it is the index of new plants. The bar of a
 * stream alone covers what a stream holds in buffers.
 */
function memoryLines(
  what: string,
  rises: readonly Memory[],
  bars: { readonly all?: Bar; readonly rest?: Bar } = {},
): string[][] {
  const mib = (bytes: (rise: Memory) => number) => rises.map((rise) => bytes(rise) / MIB);
  const all = mib(({ peakBytes }) => peakBytes);
  const index = mib(({ bufferBytes }) => bufferBytes);
  const rest = mib(({ peakBytes, bufferBytes }) => peakBytes - bufferBytes);
  return [
    line(`highest above it, ${what}, MiB`, all, 1, bars.all),
    line("  of that in array buffers: the index of new plants", index),
    line("  the rest", rest, 1, bars.rest),
  ];
}

/** A row of the table, with its bar, if it has one, and whether that is kept. */
function line(what: string, samples: readonly number[], digits = 1, bar?: Bar): string[] {
  const cells = [what, formatSpread(spread(samples), digits)];
  if (bar === undefined) return [...cells, "", "", ""];
  const isKept = [[median(samples)], samples].map((each) => each.every(bar.isKept));
  return [...cells, bar.text, ...isKept.map((kept) => (kept ? "kept" : "MISSED"))];
}
