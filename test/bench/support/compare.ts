/**
 * Several servers under the same load, by turns.
 *
 * All servers run all the time, and short runs alternate between them, in an order
 * that is rotated each round. Other work of the machine meets all of them alike,
 * so a ratio within a round means something even if the rates do not. Two
 * processes of one program can differ by a third for as long as they live, so they
 * are started anew after some rounds, and warm up before a run counts. A run
 * counts only if
 *
 * - every request was answered 200;
 * - the store grew by exactly as many records as creates were answered (with `wrk`: by at
 *   least as many, and by at most one more per connection that it closed);
 * - every byte by which the log grew was synced. support/strace-check shows once
 *   per server that these syncs reach the kernel.
 */
import path from "node:path";
import { type LoadResult, load } from "./load.ts";
import { note } from "./machine.ts";
import { median, type Spread, spread } from "./numbers.ts";
import { type Durable, type Start, type Target, withNewTargets } from "./targets.ts";
import type { Ongoing } from "./until-stopped.ts";

export interface CompareOptions {
  readonly connections: readonly number[];
  /** How often new processes are started. */
  readonly restarts: number;
  /** Rounds of each start. */
  readonly runs: number;
  readonly seconds: number;
  /** Where a folder is made for the servers of each start. */
  readonly folder: string;
}

/** One run of one server. */
export interface Sample extends LoadResult {
  /** Of the server. */
  readonly name: string;
  readonly syncs: number;
  readonly records: number;
  /** Processor time of the server for one request; steadier than the rate on a busy machine. */
  readonly cpuUs: number;
}

/** One run of each server. */
interface Round {
  readonly connections: number;
  readonly samples: readonly Sample[];
}

/** One server at one number of connections; ratios are to the first server in the same round. */
export interface Row {
  readonly connections: number;
  readonly name: string;
  readonly perSecond: number;
  readonly rate: Spread;
  readonly p50Ms: number;
  readonly p50: Spread;
  readonly p99Ms: number;
  readonly p99: Spread;
  readonly cpuUs: number;
  readonly cpu: Spread;
  /** The rate of the second server relative to this one. */
  readonly lead: Spread;
  readonly syncsPerSecond: number;
  readonly recordsPerSync: number;
}

/**
 * For this long V8 makes a process faster: the plant store has 12,000 creates a second in
 * its second to sixth second of load and 16,000 after its eighth, the floor 12,000 and 14,500.
 */
export const WARM_SECONDS = 10;

/** Longer than `npm run bench -- slow-disk` holds up a sync, so a sync in progress ends within this time. */
const QUIET_MS = 150;

/** How often a run may be refused before the whole comparison is. */
const REFUSALS_MAX = 3;

export async function compare(starts: readonly Start[], options: CompareOptions): Promise<Row[]> {
  const { restarts, runs, seconds } = options;
  const rounds: Round[] = [];
  for (let restart = 0; restart < restarts; restart++) {
    note(`start ${restart + 1} of ${restarts}, ${runs} rounds, runs of ${seconds} s`);
    const folder = path.join(options.folder, `start ${restart}`);
    const measureAll = (targets: readonly Target[]) => measureStart(targets, options, restart);
    rounds.push(...(await withNewTargets(folder, starts, measureAll)));
  }
  return options.connections.flatMap((connections) => {
    const here = rounds.filter((round) => round.connections === connections);
    const samples = here.map((round) => round.samples);
    return (samples[0] ?? []).map(({ name }, index) => {
      return summarize(name, connections, samples, index);
    });
  });
}

async function measureStart(
  targets: readonly Target[],
  { connections, runs, seconds }: CompareOptions,
  restart: number,
): Promise<Round[]> {
  await measureRound(targets, Math.max(...connections), WARM_SECONDS, 0); // creates before look-ups
  const rounds: Round[] = [];
  for (let run = 0; run < runs; run++) {
    for (const count of connections) {
      rounds.push(await measureRound(targets, count, seconds, restart + run));
    }
  }
  return rounds;
}

/** Runs every server once, in an order that is rotated by `shift`. */
async function measureRound(
  targets: readonly Target[],
  connections: number,
  seconds: number,
  shift: number,
): Promise<Round> {
  const samples: Sample[] = [];
  for (let turn = 0; turn < targets.length; turn++) {
    const index = (turn + shift) % targets.length;
    const target = targets[index] as Target;
    const run = () => measure(target, connections, seconds);
    samples[index] = await repeatRefused(target.name, run);
  }
  return { connections, samples };
}

/** Repeats a run that does not count. @throws the error of its last attempt. */
export async function repeatRefused<T>(name: string, run: () => Promise<T>): Promise<T> {
  for (let refusals = 1; ; refusals++) {
    try {
      return await run();
    } catch (error) {
      note(`  a run of ${name} does not count: ${(error as Error).message}`);
      if (refusals === REFUSALS_MAX) throw error;
    }
  }
}

/** One run. @throws Error if it does not count. */
export async function measure(
  target: Target,
  connections: number,
  seconds: number,
): Promise<Sample> {
  const nothing = { stop: async () => undefined };
  return (await measureBeside(target, connections, seconds, () => nothing)).sample;
}

/** One run with other work beside the load, and the result of that work. */
export async function measureBeside<T>(
  target: Target,
  connections: number,
  seconds: number,
  begin: () => Ongoing<T> | Promise<Ongoing<T>>,
): Promise<{ readonly sample: Sample; readonly beside: T }> {
  const before = await settled(target);
  const { result, cpuUs, beside } = await loadBeside(target, connections, seconds, begin);
  const after = await settled(target);
  const answered = target.lookUp === undefined ? result : NOTHING_STORED;
  const stored = checkStored(answered, before, after);
  return { sample: { name: target.name, ...result, ...stored, cpuUs }, beside };
}

async function loadBeside<T>(
  target: Target,
  connections: number,
  seconds: number,
  begin: () => Ongoing<T> | Promise<Ongoing<T>>,
) {
  const ongoing = await begin();
  let result: LoadResult;
  let cpuUs: number;
  let beside: T;
  try {
    const cpuBefore = target.cpuUs();
    const { port, token, created } = target;
    const lookUp = target.lookUp?.();
    result = await load({ port, token, connections, seconds, lookUp });
    if (lookUp === undefined) {
      // Without the id that `wrk` draws and does not send, and those that may be unanswered.
      created.push({ firstId: result.firstId + 1, count: result.requests - 2 * connections });
    }
    cpuUs = (target.cpuUs() - cpuBefore) / result.requests;
  } finally {
    beside = await ongoing.stop();
  }
  return { result, cpuUs, beside };
}

/** Repeats and reads count as no creates. */
const NOTHING_STORED = { requests: 0, inFlightMax: 0 };

/**
 * What was stored between two looks; zeros for a target that stores nothing.
 *
 * @throws Error if that is not what was answered, or was not synced.
 */
export function checkStored(
  { requests, inFlightMax }: Pick<LoadResult, "requests" | "inFlightMax">,
  before: Durable | undefined,
  after: Durable | undefined,
): Pick<Sample, "records" | "syncs"> {
  if (before === undefined || after === undefined) return { records: 0, syncs: 0 };
  const records = after.records - before.records;
  const syncs = after.syncs - before.syncs;
  if (records < requests || records > requests + inFlightMax) {
    throw new Error(`${requests} were answered 200, and ${records} records stored`);
  }
  if (syncs === 0 && requests > 0) throw new Error("nothing was synced");
  if (after.syncedBytes !== after.bytes) {
    throw new Error(`the log grew by ${after.bytes} bytes, and ${after.syncedBytes} were synced`);
  }
  return { records, syncs };
}

/** Waits until nothing is in flight; returns what is stored then. */
export async function settled({ durable }: Target): Promise<Durable | undefined> {
  if (durable === undefined) return undefined;
  let last = await durable();
  for (let looks = 0; looks < 100; looks++) {
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    const next = await durable();
    if (next.records === last.records && next.syncs === last.syncs) return next;
    last = next;
  }
  throw new Error("the server does not become idle");
}

function summarize(
  name: string,
  connections: number,
  rounds: readonly (readonly Sample[])[],
  index: number,
): Row {
  const own = rounds.map((samples) => samples[index] as Sample);
  const ratios = (value: (sample: Sample) => number) =>
    spread(own.map((sample, round) => value(sample) / value(rounds[round]?.[0] as Sample)));
  return {
    connections,
    name,
    perSecond: median(own.map((sample) => sample.perSecond)),
    rate: ratios((sample) => sample.perSecond),
    p50Ms: median(own.map((sample) => sample.p50Ms)),
    p50: ratios((sample) => sample.p50Ms),
    p99Ms: median(own.map((sample) => sample.p99Ms)),
    p99: ratios((sample) => sample.p99Ms),
    cpuUs: median(own.map((sample) => sample.cpuUs)),
    cpu: ratios((sample) => sample.cpuUs),
    lead: spread(
      own.map(({ perSecond }, round) => (rounds[round]?.[1]?.perSecond ?? 0) / perSecond),
    ),
    syncsPerSecond: median(
      own.map(({ syncs, records, perSecond }) => (syncs / records) * perSecond),
    ),
    recordsPerSync: median(own.map(({ syncs, records }) => records / syncs)),
  };
}
