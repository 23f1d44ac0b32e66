/**
 * What reading everything costs: the stream of all plants to its end, alone
 * and beside creates, in speed, in resident memory of the server and in creates.
 *
 *   npm run bench:stream                           a million plants
 *   npm run bench:stream -- --plants 10_000_000    the size of the promise
 *
 * Memory is the kernel's own highest mark during each run, from before the
 * first request on, so nothing falls between two looks. A run counts only if
 * the stream had as many plants and bytes as the log, and if the creates passed
 * what support/compare asks of them; at the end one more stream has to hold them too.
 */
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { generateStore, logBytes } from "./generate.ts";
import { compare } from "./support/compare.ts";
import { loadName } from "./support/load.ts";
import { describeMachine, note, withFolder } from "./support/machine.ts";
import { formatCount, formatRound, formatSpread, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { formatRows } from "./support/report.ts";
import { readStream, type StreamRead, startReading } from "./support/stream-reader.ts";
import { formatTable } from "./support/table.ts";
import { startServer, type Target } from "./support/targets.ts";

const options = readOptions({
  plants: "plants in the log (1_000_000)",
  runs: "streams to the end, and rounds of creates that count (5)",
  seconds: "whole seconds of a run of creates (5)",
  connections: "connections that create (256)",
  dir: "where to make the data directory (the system's folder for such)",
});

/**
 * Of a run of creates. Node accepts one connection in each turn of the event loop, so a run of two
 * seconds is partly one of clients that wait to be accepted, not of creates that go on.
 */
const SECONDS = 5;
/** Longer is no stream that goes on beside creates, and the creates would have the server alone. */
const SILENCE_MS_MAX = 1000;
const IDLE_CPU_US = 10_000;
const IDLE_LOOKS_MAX = 300;
const MIB = 1024 * 1024;

/** What one kind of run came to, run by run. */
interface Runs {
  readonly reads: StreamRead[];
  /** Highest resident bytes above those of the idle server. */
  readonly peaks: number[];
}

const size = positive(options.plants, 1e6);
const runs = positive(options.runs, 5);

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\nload: ${loadName}\n\n`);
  const data = path.join(folder, "data");
  generateStore(data, size);
  const target = await startClean(data);
  try {
    const idleBytes = await rest(target);
    const alone = await streamAlone(target, idleBytes);
    const { rows, creates, beside } = await createBeside(target, idleBytes);
    const { records = 0 } = (await target.durable?.()) ?? {};
    const { plants } = await readStream(target);
    if (plants !== size + records) {
      throw new Error(`${size + records} plants are stored, and ${plants} were streamed`);
    }
    const mib = (bytes: readonly number[]) => formatSpread(spread(bytes.map((b) => b / MIB)), 1);
    const speeds = alone.reads.map(({ bytes, ms }) => bytes / 1e3 / ms);
    const silences = beside.reads.map(({ silenceMs }) => silenceMs);
    const table = formatTable(
      [`streams of ${formatRound(size)}`, ""],
      [
        ["plants in each, counted", formatCount(size)],
        ["alone, MB/s", formatSpread(spread(speeds), 0)],
        ["resident when idle, MiB", (idleBytes / MIB).toFixed(1)],
        ["highest above it, a stream alone, MiB", mib(alone.peaks)],
        ["highest above it, creates alone, MiB", mib(creates.peaks)],
        ["highest above it, creates beside a stream, MiB", mib(beside.peaks)],
        ["longest silence of a stream beside creates, ms", formatSpread(spread(silences), 0)],
      ],
    );
    process.stdout.write(`${table}\n\n${formatRows(rows)}\n`);
  } finally {
    await target.stop();
  }
});

/** After a clean stop: what a scan of the log leaves in memory would hide as much of a stream. */
async function startClean(data: string): Promise<Target> {
  const start = () =>
    startServer({ name: "creates alone", folder: data, scopes: ["read", "write"] });
  await (await start()).stop();
  return start();
}

/** Resident bytes once it has nothing left to do by itself. */
async function rest(target: Target): Promise<number> {
  for (let looks = 0; looks < IDLE_LOOKS_MAX; looks++) {
    const before = target.cpuUs();
    await setTimeout(1000);
    if (target.cpuUs() - before < IDLE_CPU_US) return target.residentBytes().now;
  }
  throw new Error("the server does not come to rest");
}

async function streamAlone(target: Target, idleBytes: number): Promise<Runs> {
  const alone: Runs = { reads: [], peaks: [] };
  for (let run = 0; run < runs; run++) {
    note(`a stream of ${formatRound(size)}, ${run + 1} of ${runs}`);
    target.forgetPeak();
    const read = await readStream(target);
    if (read.plants !== size || read.bytes !== logBytes(size)) {
      throw new Error(`${size} plants are stored, ${read.plants} in ${read.bytes} bytes came`);
    }
    alone.reads.push(read);
    alone.peaks.push(target.residentBytes().peak - idleBytes);
  }
  return alone;
}

/** The same server under creates, by turns with and without somebody who reads streams. */
async function createBeside(target: Target, idleBytes: number) {
  const creates: Runs = { reads: [], peaks: [] };
  const beside: Runs = { reads: [], peaks: [] };
  const observe =
    (isRead: boolean, { reads, peaks }: Runs) =>
    async () => {
      target.forgetPeak();
      const reading = isRead ? await startReading(target) : undefined;
      return async () => {
        const read = await reading?.stop();
        if (read !== undefined) reads.push(checkSteady(read));
        peaks.push(target.residentBytes().peak - idleBytes);
      };
    };
  const targets: Target[] = [
    { ...target, beside: observe(false, creates) },
    { ...target, name: "beside a stream", beside: observe(true, beside) },
  ];
  const rows = await compare(targets, {
    connections: positives(options.connections, [256]),
    runs,
    seconds: positive(options.seconds, SECONDS),
  });
  return { rows, creates, beside };
}

function checkSteady(read: StreamRead): StreamRead {
  if (read.silenceMs <= SILENCE_MS_MAX) return read;
  throw new Error(`the stream stood still for ${read.silenceMs.toFixed(0)} ms`);
}
