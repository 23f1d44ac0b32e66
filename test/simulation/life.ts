/**
 * One simulated life: a data directory, the processes that use it one after the other, and how each of them ends.
 *
 * Invariants. Everything that happens follows from the plan. A life ends with a calm round, in which nothing fails:
 * it has to start, and to serve all that was promised.
 */
import { TokenRegistry } from "../../src/auth/token-registry.ts";
import { setClock } from "../../src/clock.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import { PlantStore } from "../../src/store/plant-store.ts";
import { ACTS, openHalf, repair, restoreNewest } from "./acts.ts";
import { SimulatedClock } from "./clock.ts";
import { HARMS } from "./harm.ts";
import { Folder, Judge } from "./judge.ts";
import type { Life, Round, Step } from "./plan.ts";
import { Platter } from "./platter.ts";
import {
  DELAYS,
  FAILURES,
  HARD_FAILURES,
  REFUSALS,
  SimulatedProcess,
  Violation,
} from "./process.ts";
import { Random } from "./random.ts";
import { RuleBook } from "./rules.ts";
import { judgeTokens, TOKEN_ACTS, Tokens } from "./tokens.ts";

const ALL_ACTS: Readonly<Record<string, (life: LifeRun, step: Step) => Promise<void>>> = {
  ...ACTS,
  ...TOKEN_ACTS,
  ...HARMS,
};

const END: Round["end"] = { how: "stop", moment: 1, call: "any call" };
const LAST: Round = { chance: 0, isCalm: true, room: 0, before: [], steps: [], end: END };

interface Server {
  readonly store: PlantStore;
  readonly registry: TokenRegistry;
  /** The store of a second process, which has passed the lock. */
  other?: PlantStore;
  /** Whether another program has changed the log or the lock. */
  isDisturbed?: boolean;
  /** Whether the lock of the first process is gone. */
  isUnlocked?: boolean;
}

export class LifeRun {
  readonly plan: Life;
  readonly random: Random;
  readonly clock: SimulatedClock;
  readonly rules = new RuleBook();
  readonly judge: Judge;
  readonly backups: Folder[] = [];
  folder = new Folder("/srv/data");
  process!: SimulatedProcess;
  server: Server | undefined;
  /** A copy that was begun, and what it has to hold at least if it is served. */
  half: { readonly path: string; readonly least: Buffer } | undefined;
  rounds = 0;
  trace = 0;
  /** A process has said that memory may hold what the disk lacks. */
  #mustCutPower = false;
  #wasKilled = false;
  #draws = 0;

  constructor(plan: Life) {
    this.plan = plan;
    this.random = new Random(plan.chance);
    this.clock = new SimulatedClock(this.random);
    const platter = new Platter(this.rules);
    platter.create("/srv", { kind: "folder" });
    platter.commitAll();
    this.judge = new Judge(plan.world, platter);
    setClock(this.clock);
  }

  get isDead(): boolean {
    return this.process.isDead;
  }

  get isDisturbed(): boolean {
    return this.server?.isDisturbed === true;
  }

  nextRandom(): Random {
    return this.random.fork(`${++this.#draws}`);
  }

  newPath(name: string): string {
    return `/srv/${name}-${++this.#draws}`;
  }

  exists(filePath: string): boolean {
    return this.judge.platter.find(filePath) !== undefined;
  }

  async run(): Promise<void> {
    for (const round of [...this.plan.rounds, LAST]) await this.#runRound(round);
  }

  async #runRound({ chance, isCalm, room, before, steps, end }: Round): Promise<void> {
    const { clock, rules, judge } = this;
    const { platter } = judge;
    this.rounds++;
    rules.rates = isCalm ? {} : this.plan.rates;
    platter.bytesMax = room === 0 || isCalm ? Number.POSITIVE_INFINITY : platter.bytesUsed + room;
    const random = this.random.fork(`round ${chance}`);
    this.process = new SimulatedProcess({ platter, clock, random, rules });
    this.server = undefined;
    const { disk } = this.process;
    if (end.how !== "stop") disk.crashAt(end.moment, end.call);
    await this.process.run(async () => {
      await this.#try("a start of half a copy", () => openHalf(this));
      for (const step of before) await this.#perform(step);
      if (this.#mustCutPower || !(await this.#start())) return;
      await Promise.all([0, 1, 2].map((client) => this.#runClient(client, steps)));
      if (end.how !== "stop") return;
      await this.#try("a stop", async () => {
        await this.server?.other?.close();
        await this.server?.store.close();
        this.server?.registry.close();
      });
    });
    this.trace = (Math.imul(this.trace, 31) + disk.trace) >>> 0;
    // A process that is killed between a failed sync and its cut leaves what no program can know: the model is
    // kinder than a kernel here, and takes the machine down with it.
    const isUnknown = !this.process.hasEnded && platter.hasLost;
    // A supervisor starts a process again that could not start.
    const hasStarted = this.server !== undefined || !this.process.hasEnded;
    if ((end.how === "cut" && hasStarted) || this.#mustCutPower || isUnknown) {
      rules.count(this.#wasKilled ? "crash: kill, then power cut" : "crash: power cut");
      judge.platter = platter.afterCut(random.fork("cut"));
      this.folder.recovering = undefined;
      this.#mustCutPower = false;
      return;
    }
    rules.count("crash: kill");
    this.#wasKilled = true;
  }

  /** Starts as `serve` does. Returns whether a server runs. */
  async #start(isRepaired = false): Promise<boolean> {
    const { folder, judge } = this;
    const { queueBytesMax } = this.plan;
    const before = judge.filesOf(folder);
    folder.recovering ??= before;
    const error = await this.#try("a start", async () => {
      const store = await PlantStore.open(folder.path, { queueBytesMax });
      if (this.isDead) return;
      judge.judgeStart(folder, store.status().plants);
      try {
        const registry = await TokenRegistry.open(folder.path);
        if (!this.isDead) this.server = { store, registry };
        void store.failed.then((failure) => this.#heed(failure)); // of two creates one tells
      } catch (cause) {
        await store.close();
        throw cause;
      }
    });
    if (error === undefined) {
      if (!this.isDead) judgeTokens(this, "a start");
      return this.server !== undefined;
    }
    if (folder.tokens.isRotten && !folder.isChanged) {
      judge.platter.unlink(folder.tokensPath); // by an operator, who makes new ones
      judge.platter.commitAll();
      folder.tokens = new Tokens();
      return this.#start();
    }
    if (error.code !== "corruption" && !folder.isChanged) return false;
    if (isRepaired) throw new Violation("refused", `after a repair: ${error.message}`);
    judge.judgeRefusal(folder, before, error);
    if (await this.#try("a repair", () => repair(this))) {
      await this.#try("a restore", () => restoreNewest(this));
      if (this.folder === folder && !this.isDead) this.folder = new Folder(this.newPath("data"));
    }
    return !this.isDead && this.#start(true);
  }

  async #runClient(client: number, steps: readonly Step[]): Promise<void> {
    for (const step of steps.filter((step) => step.client === client)) {
      await this.clock.rest(step.waitMs);
      await this.#perform(step);
    }
  }

  async #perform(step: Step): Promise<void> {
    if (!this.isDead) await this.#try(step.act, async () => ALL_ACTS[step.act]?.(this, step));
  }

  /** Returns the error that the work fails with. @throws Violation if it may not. */
  async #try(act: string, work: () => Promise<void>): Promise<PlantStoreError | undefined> {
    try {
      await work();
      return undefined;
    } catch (error) {
      if (error instanceof Violation) throw error;
      if (this.isDead) return undefined;
      if (!(error instanceof PlantStoreError)) {
        throw new Violation("raw error", `${act}: ${(error as Error).stack}`);
      }
      const { code, message, cause } = error;
      this.#heed(error);
      if (this.#isExcused(act, code)) return error;
      throw new Violation(`needless ${code}`, `${act} fails without a fault: ${message}: ${cause}`);
    }
  }

  #heed({ code, cause }: PlantStoreError): void {
    const why = (cause as PlantStoreError | undefined)?.code;
    this.#mustCutPower ||= code === "unsynced" || why === "unsynced";
  }

  #isExcused(act: string, code: string): boolean {
    const { folder, process, server, plan } = this;
    if (this.isDisturbed) return true;
    if (folder.tokens.isRotten && /token|ask|start|backup|restore/.test(act)) return true;
    const isMissing = server === undefined && !this.exists(folder.logPath);
    const excuses: Readonly<Record<string, boolean>> = {
      store_failed: process.hasMet(HARD_FAILURES),
      unsynced: process.hasMet(HARD_FAILURES),
      write_failed: process.hasMet(REFUSALS),
      read_failed: folder.isChanged || process.hasMet(FAILURES),
      io_error: isMissing || folder.isChanged || process.hasMet(FAILURES),
      corruption: folder.isChanged || act === "a start",
      locked: process.hasMet(DELAYS),
      overloaded: plan.queueBytesMax < 2 ** 20,
    };
    return excuses[code] === true;
  }
}
