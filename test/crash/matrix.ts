/** Runs a scenario once for every call that it makes, and kills the process at that call. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeTemporaryFolder } from "./leftovers.ts";
import type { Program, Surroundings } from "./program.ts";
import type { Random } from "./random.ts";
import { addTotals, newTotals, type Totals } from "./report.ts";
import { copyTree, type Scenario } from "./scenario.ts";
import { describeEnd } from "./server.ts";
import { killing, type Place, readPlaces, recording, wasKilled } from "./strace.ts";

export interface MatrixOptions {
  /** The names of the system calls. */
  readonly calls: readonly string[];
  /** Kills at ever later calls of a place until a run survives, not only at as many as were recorded. */
  readonly untilSurvived: boolean;
  /** How many runs go on at once. */
  readonly jobs: number;
  /** Picks one call of each kind, to kill only there instead of at every call. */
  readonly sample?: Random;
}

export interface MatrixReport {
  readonly totals: Totals;
  readonly killsByCall: ReadonlyMap<string, number>;
}

/** An upper bound for the loop: no scenario makes a call on one path so often. */
const NTH_MAX = 200;

export async function runMatrix(
  program: Program,
  scenario: Scenario,
  options: MatrixOptions,
): Promise<MatrixReport> {
  const { path: scratch, remove } = makeTemporaryFolder("kill");
  try {
    const matrix = new Matrix({ program, scenario, options, scratch });
    await matrix.run();
    return matrix;
  } finally {
    remove();
  }
}

interface MatrixParts {
  readonly program: Program;
  readonly scenario: Scenario;
  readonly options: MatrixOptions;
  readonly scratch: string;
}

class Matrix implements MatrixReport {
  readonly totals = newTotals();
  readonly killsByCall = new Map<string, number>();
  readonly #parts: MatrixParts;

  constructor(parts: MatrixParts) {
    this.#parts = parts;
  }

  async run(): Promise<void> {
    const { scratch, scenario, options } = this.#parts;
    mkdirSync(join(scratch, "template"));
    await scenario.prepare(join(scratch, "template"));
    const seen = await this.#record();
    const places = options.sample === undefined ? seen : samplePlaces(seen, options.sample);
    if (places.length === 0) this.totals.faults.push(`${scenario.name}: no call was seen`);
    const work = async (slot: number) => {
      for (let place = places.shift(); place !== undefined; place = places.shift()) {
        await this.#killAt(place, slot);
      }
    };
    await Promise.all(Array.from({ length: options.jobs }, (_, slot) => work(slot)));
  }

  async #record(): Promise<Place[]> {
    const { options } = this.#parts;
    const { root, trace } = this.#slot(0);
    await this.#attempt(0, recording(trace, options.calls), "recording");
    return readPlaces(readFileSync(trace, "utf8"), root);
  }

  async #killAt(place: Place, slot: number): Promise<void> {
    const { sample, untilSurvived } = this.#parts.options;
    if (sample !== undefined) {
      const isKilled = await this.#kill(place, place.count, slot);
      if (!isKilled && place.count > 1) await this.#kill(place, 1, slot);
      return;
    }
    const last = untilSurvived ? NTH_MAX : place.count;
    let nth = 1;
    while (nth <= last && (await this.#kill(place, nth, slot))) nth++;
  }

  /** Returns whether the kill hit. */
  async #kill(place: Place, nth: number, slot: number): Promise<boolean> {
    const { root, trace } = this.#slot(slot);
    const what = `${place.call} ${place.path ?? ""} #${nth}`;
    const isKilled = await this.#attempt(slot, killing(trace, root, place, nth), what);
    if (isKilled) {
      this.killsByCall.set(place.call, (this.killsByCall.get(place.call) ?? 0) + 1);
      this.totals.kills++;
    } else if (nth === 1) {
      // The number of batches depends on which requests arrive together, so only the first is sure.
      this.totals.faults.push(`${what}: the kill did not hit`);
    }
    return isKilled;
  }

  /** Makes one run in a fresh copy, and judges what it leaves. Returns whether the kill hit. */
  async #attempt(slot: number, surroundings: Surroundings, what: string): Promise<boolean> {
    const { program, scenario, scratch } = this.#parts;
    const { root, trace } = this.#slot(slot);
    copyTree(join(scratch, "template"), root);
    const totals = newTotals();
    const attempt = await scenario.attempt(root, { program, surroundings });
    const { ended, acknowledged } = attempt;
    const isKilled = ended.signal === "SIGKILL" && wasKilled(readFileSync(trace, "utf8"));
    if (ended.isLate || (!isKilled && ended.status !== 0)) totals.faults.push(describeEnd(ended));
    await attempt.judge(totals);
    const faults = totals.faults.map((fault) => `${scenario.name}, ${what}: ${fault}`);
    addTotals(this.totals, { ...totals, acknowledged, faults });
    return isKilled && !ended.isLate;
  }

  /** The files of one of the concurrent runs. */
  #slot(slot: number): { root: string; trace: string } {
    const { scratch } = this.#parts;
    return { root: join(scratch, `run-${slot}`), trace: join(scratch, `trace-${slot}`) };
  }
}

/** One place of each kind of call; its count is cut to the call to kill at, so that a seed repeats it. */
function samplePlaces(places: readonly Place[], random: Random): Place[] {
  return [...new Set(places.map(({ call }) => call))].flatMap((call) => {
    const [first, ...others] = places.filter((place) => place.call === call);
    if (first === undefined) return [];
    const place = random.pick([first, ...others]);
    return [{ ...place, count: 1 + random.below(place.count) }];
  });
}
