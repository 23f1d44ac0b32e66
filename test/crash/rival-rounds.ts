/**
 * Rounds of two servers on one log, without the lock. They test the second line of defence: the
 * appends and cuts of `src/log/file.ts`.
 *
 * A round may end with both servers failed, and with a line that every start refuses, so that a
 * person is needed. It must not end with an acknowledged plant missing, changed or duplicated.
 */
import { linkSync } from "node:fs";
import { join } from "node:path";
import { createToken } from "../../src/index.ts";
import { makeTemporaryFolder } from "./leftovers.ts";
import { Load, replay } from "./load.ts";
import { checkLog } from "./log-check.ts";
import { PlantBook } from "./plant-book.ts";
import type { Program } from "./program.ts";
import type { Random } from "./random.ts";
import { addFindings, addTotals, isClean, newTotals, type Totals } from "./report.ts";
import { describeEnd, Server } from "./server.ts";

/** The program as it is, and with a lock that every process acquires. */
export interface RivalPrograms {
  readonly locked: Program;
  readonly unlocked: Program;
}

export interface RivalOptions {
  readonly rounds: number;
  readonly random: Random;
  readonly connections: number;
}

export interface RivalReport {
  readonly totals: Totals;
  /** Servers that noticed the other one and ended with status 1. */
  failures: number;
  /** Rounds after which a start refused the log, so that a person is needed. */
  refusals: number;
}

/** New plants only: the server that does not know a plant would store its repeat a second time. */
const NEW_PLANTS = { replay: 0, conflict: 0, twin: 0 };
const ALONE_MS_MAX = 150;
const TOGETHER_MS_MAX = 300;
const REPLAYS = 200;
/** A new folder is used after this many rounds, because every round reads the whole log. */
const ROUNDS_PER_FOLDER = 5;

/** What each kind of round does with its servers; those that still run afterwards are killed. */
type Kind = (life: RivalLife) => Promise<void>;

export const RIVAL_KINDS: Readonly<Record<string, Kind>> = {
  "both under load": async (life) => {
    const one = await life.start();
    const other = await life.start();
    await Promise.all([life.load(one), life.load(other)]);
    await life.pass(TOGETHER_MS_MAX);
  },

  "one log in two folders": async (life) => {
    const one = await life.start(life.locked);
    await life.load(one);
    await life.pass(ALONE_MS_MAX);
    await life.load(await life.start(life.locked, life.linkedFolder()));
    await life.pass(TOGETHER_MS_MAX);
  },
};

/** In some rounds both servers fail before their first answer. */
const ATTEMPTS_MAX = 10;

/** Runs rounds of one kind, until something was acknowledged and one server has noticed the other. */
export async function runRivals(
  programs: RivalPrograms,
  name: string,
  options: RivalOptions,
): Promise<RivalReport> {
  const kind = RIVAL_KINDS[name];
  if (kind === undefined) throw new Error(`no kind of rivals is called ${name}`);
  const all: RivalReport = { totals: newTotals(), failures: 0, refusals: 0 };
  for (let attempt = 0; attempt < ATTEMPTS_MAX && isClean(all.totals); attempt++) {
    const { totals, failures, refusals } = await runRivalRounds(programs, kind, options);
    addTotals(all.totals, totals);
    all.failures += failures;
    all.refusals += refusals;
    const isNoticed = all.failures + all.refusals > 0;
    if (isNoticed && all.totals.acknowledged > 0) return all;
  }
  if (all.totals.acknowledged === 0) all.totals.faults.push(`${name}: nothing was acknowledged`);
  return all;
}

async function runRivalRounds(
  programs: RivalPrograms,
  kind: Kind,
  options: RivalOptions,
): Promise<RivalReport> {
  const report: RivalReport = { totals: newTotals(), failures: 0, refusals: 0 };
  for (let done = 0; done < options.rounds; ) {
    const { path: folder, remove } = makeTemporaryFolder("rivals");
    try {
      const life = await RivalLife.begin(programs, folder, options, report);
      for (let at = 0; at < ROUNDS_PER_FOLDER && done < options.rounds; at++, done++) {
        if (!(await life.round(kind))) break;
      }
    } finally {
      remove();
    }
  }
  return report;
}

interface Running {
  readonly server: Server;
  readonly port: number;
}

/** Two servers on one folder, through some rounds. */
class RivalLife {
  readonly #book: PlantBook;
  readonly #programs: RivalPrograms;
  readonly #folder: string;
  readonly #options: RivalOptions;
  readonly #report: RivalReport;
  readonly #token: string;
  #servers: Server[] = [];
  #loads: Load[] = [];
  #cleanups: (() => void)[] = [];

  private constructor(
    programs: RivalPrograms,
    folder: string,
    options: RivalOptions,
    report: RivalReport,
    token: string,
  ) {
    this.#programs = programs;
    this.#folder = folder;
    this.#options = options;
    this.#report = report;
    this.#token = token;
    // Equal lines make batches of one length likelier, and long names a batch that is seen half written.
    const hasEqualLines = options.random.next() < 0.5;
    this.#book = new PlantBook({ hasEqualLines, hasLongNames: !hasEqualLines });
  }

  static async begin(
    programs: RivalPrograms,
    folder: string,
    options: RivalOptions,
    report: RivalReport,
  ): Promise<RivalLife> {
    const token = await createToken(folder, { name: "rivals" });
    return new RivalLife(programs, folder, options, report, token);
  }

  get random(): Random {
    return this.#options.random;
  }

  get locked(): Program {
    return this.#programs.locked;
  }

  get #log(): string {
    return join(this.#folder, "plants.jsonl");
  }

  /** Returns false if the folder cannot be used for another round. */
  async round(kind: Kind): Promise<boolean> {
    const { totals } = this.#report;
    const acknowledged = this.#book.acknowledged;
    totals.kills++;
    try {
      await kind(this);
    } finally {
      await this.#endAll();
    }
    totals.acknowledged += this.#book.acknowledged - acknowledged;
    const { lost, duplicated, faults } = checkLog(this.#log, this.#book);
    const wrong = lost + duplicated > 0 ? faults : []; // a line that nobody acknowledged may be torn
    addFindings(totals, { lost, duplicated, unknownLines: 0, faults: wrong });
    return this.#startAgain();
  }

  async #endAll(): Promise<void> {
    for (const server of this.#servers.splice(0)) {
      const { status, signal, stderr, isLate } = await server.kill();
      if (status === 1) this.#report.failures++;
      else if (signal !== "SIGKILL" && status !== 3) {
        this.#report.totals.faults.push(
          describeEnd({ status, signal, stderr, stdout: "", isLate }),
        );
      }
    }
    for (const load of this.#loads.splice(0)) {
      this.#report.totals.faults.push(...(await load.stop()).wrong);
    }
    for (const clean of this.#cleanups.splice(0)) clean();
  }

  /** Starts the server again, as a supervisor would, with the real lock: repeats of acknowledged plants get 200. */
  async #startAgain(): Promise<boolean> {
    const { totals } = this.#report;
    const server = new Server(this.locked, this.#folder);
    const port = await server.ready;
    if (port === undefined) {
      const ended = await server.ended;
      if (ended.status === 3) this.#report.refusals++;
      else totals.faults.push(`a start ${describeEnd(ended)}`);
      return false;
    }
    const book = this.#book;
    const sample = book.sample(REPLAYS, this.random);
    totals.faults.push(...(await replay({ port, token: this.#token, book }, sample)));
    const ended = await server.stop();
    if (ended.status !== 0) totals.faults.push(`a clean stop ${describeEnd(ended)}`);
    return true;
  }

  /** Starts a server; `undefined` if it refused. */
  async start(
    program = this.#programs.unlocked,
    folder = this.#folder,
  ): Promise<Running | undefined> {
    const server = new Server(program, folder);
    this.#servers.push(server);
    const port = await server.ready;
    return port === undefined ? undefined : { server, port };
  }

  async load(running: Running | undefined): Promise<void> {
    if (running === undefined) return;
    const { connections, random } = this.#options;
    const target = { port: running.port, token: this.#token, book: this.#book };
    this.#loads.push(await Load.start({ ...target, connections, random, mix: NEW_PLANTS }));
  }

  /** Waits for a random time up to this; nothing depends on it. */
  pass(msMax: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.random.next() * msMax));
  }

  /** A folder of its own for the same log, by a hard link. */
  linkedFolder(): string {
    const { path, remove } = makeTemporaryFolder("rivals");
    this.#cleanups.push(remove);
    for (const name of ["plants.jsonl", "tokens.jsonl"]) {
      linkSync(join(this.#folder, name), join(path, name));
    }
    return path;
  }
}
