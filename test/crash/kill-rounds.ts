/**
 * Rounds of SIGKILL at random moments: during a start, under load, and during a stop.
 *
 * Each round starts the server on the folder that the last kill left, and compares the log and the
 * answers to replays with what was acknowledged.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createToken } from "../../src/index.ts";
import { makeTemporaryFolder } from "./leftovers.ts";
import { Load, replay, type Tally, USUAL_MIX } from "./load.ts";
import { checkLog } from "./log-check.ts";
import { PlantBook } from "./plant-book.ts";
import { type Program, runProgram } from "./program.ts";
import { Random } from "./random.ts";
import { addFindings, newTotals, type Totals } from "./report.ts";
import { describeEnd, Server } from "./server.ts";

export interface RoundsOptions {
  readonly rounds: number;
  readonly seed: number;
  readonly connections: number;
  readonly onRound?: (done: number, totals: Totals) => void;
}

/** A new folder is used after this many rounds, because every round reads the whole log. */
const ROUNDS_PER_FOLDER = 20;
const LOAD_MS_MAX = 600;
const STOP_MS_MAX = 60;
const REPLAYS = 200;

export async function runKillRounds(program: Program, options: RoundsOptions): Promise<Totals> {
  const totals = newTotals();
  const random = new Random(options.seed);
  for (let done = 0; done < options.rounds; ) {
    const { path: folder, remove } = makeTemporaryFolder("crash");
    try {
      const rounds = Math.min(ROUNDS_PER_FOLDER, options.rounds - done);
      const life = new Life({ program, folder, totals, random, connections: options.connections });
      await life.begin();
      for (let round = 0; round < rounds && totals.failedStarts === 0; round++) {
        await life.round();
        done++;
        options.onRound?.(done, totals);
      }
      await life.end();
    } finally {
      remove();
    }
    if (totals.failedStarts > 0) break;
  }
  return totals;
}

interface LifeParts {
  readonly program: Program;
  readonly folder: string;
  readonly totals: Totals;
  readonly random: Random;
  readonly connections: number;
}

/** One data directory, through many kills. */
class Life {
  readonly #parts: LifeParts;
  readonly #book = new PlantBook({ hasLongNames: true });
  #token = "";
  /** How long the last start took; a kill of a start comes within this time. */
  #startMs = 200;

  constructor(parts: LifeParts) {
    this.#parts = parts;
  }

  async begin(): Promise<void> {
    this.#token = await createToken(this.#parts.folder, { name: "crash" });
  }

  async round(): Promise<void> {
    const { random, totals } = this.#parts;
    const acknowledged = this.#book.acknowledged;
    const moment = random.pick(["start", "load", "load", "stop"]);
    totals.kills++;
    if (moment === "start") await this.#killStart();
    const server = await this.#startAndCheck();
    if (server !== undefined) await this.#killUnderLoad(server, moment === "stop");
    totals.acknowledged += this.#book.acknowledged - acknowledged;
  }

  /** Checks after the last kill that nothing is lost and the folder is sound. */
  async end(): Promise<void> {
    const { program, folder, totals } = this.#parts;
    const server = await this.#startAndCheck();
    if (server === undefined) return;
    const ended = await server.server.stop();
    if (ended.status !== 0) totals.faults.push(`a clean stop ${describeEnd(ended)}`);
    const verified = await runProgram(program, ["verify", "--data", folder]);
    if (verified.status !== 0) totals.faults.push(`verify ${describeEnd(verified)}`);
  }

  async #killStart(): Promise<void> {
    const { program, folder, random } = this.#parts;
    const server = new Server(program, folder);
    await sleep(random.next() * this.#startMs * 1.2);
    await server.kill();
  }

  async #startAndCheck(): Promise<{ server: Server; port: number } | undefined> {
    const { program, folder, totals, random } = this.#parts;
    const book = this.#book;
    const started = performance.now();
    const server = new Server(program, folder);
    const port = await server.ready;
    if (port === undefined) {
      totals.failedStarts++;
      totals.faults.push(`a start ${describeEnd(await server.ended)}`);
      return undefined;
    }
    this.#startMs = performance.now() - started;
    addFindings(totals, checkLog(join(folder, "plants.jsonl"), book));
    const sample = book.sample(REPLAYS, random);
    totals.faults.push(...(await replay({ port, token: this.#token, book }, sample)));
    return { server, port };
  }

  async #killUnderLoad(
    { server, port }: { server: Server; port: number },
    killsStop: boolean,
  ): Promise<void> {
    const { random, connections } = this.#parts;
    const target = { port, token: this.#token, book: this.#book };
    const load = await Load.start({ ...target, connections, random, mix: USUAL_MIX });
    await sleep(random.next() * LOAD_MS_MAX);
    if (killsStop) {
      server.run.kill("SIGTERM");
      await sleep(random.next() * STOP_MS_MAX);
    }
    await server.kill();
    this.#note(await load.stop());
  }

  #note({ wrong, refused }: Tally): void {
    this.#parts.totals.faults.push(...wrong);
    if (refused > 0) this.#parts.totals.faults.push(`${refused} requests were answered 503`);
  }
}
