/**
 * A life: some dozens of rounds over the same disk. A round is a start, some work, and a crash or a stop.
 *
 * Invariants. Nothing but the plan decides what happens, and nothing but the seed decides the plan. Of a process
 * that has died nothing is heard.
 */
import { crc32 } from "node:zlib";
import { replaceClock } from "../../src/clock.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import { PlantStore } from "../../src/index.ts";
import { replaceDisk } from "../../src/log/disk.ts";
import { SimulatedClock } from "./clock.ts";
import { drawPlan } from "./draw.ts";
import { Edits } from "./edits.ts";
import { emptyGates } from "./gates.ts";
import { tailPlant } from "./image.ts";
import { Folder, Judge, type View } from "./judge.ts";
import { Violation } from "./ledger.ts";
import {
  type Backup,
  type Copying,
  compareWithVerify,
  judgeCopy,
  mayBeRemoved,
  numberedBackups,
  repair,
  restoreBackup,
  verify,
} from "./operator.ts";
import { type CutKind, Platter, SystemError } from "./platter.ts";
import { Random } from "./random.ts";
import { RuleBook, type RuleKind, type RuleName } from "./rules.ts";
import { Server, sizesOf } from "./server.ts";
import type { Command, LifePlan, RoundPlan } from "./work.ts";
import { World } from "./world.ts";

export type { LifePlan } from "./work.ts";

export interface LifeResult {
  readonly rounds: number;
  readonly violation?: { readonly kind: string; readonly message: string };
  /** A hash of all that happened. */
  readonly trace: string;
  /** How often each rule fired, and what was served or refused. */
  readonly counts: Record<string, number>;
  /** All decisions: run it again, whole or in part. */
  readonly plan: LifePlan;
}

/** A round takes some seconds; then whatever waits waits for ever. */
const ROUND_MS_MAX = 180_000;
/** After how many of the starts everything is read. */
const READS = 0.1;
/** How a start may end that meets what another program appends. */
const MET_CODES = ["locked", "corruption"];
/** How often another program appends while a start reads and recovers the log. */
const APPENDS_AMID = 0.05;
const READ_ALL: Command = { number: -1, client: 0, waitMs: 0, act: "read all" };
/** After how many of the cuts the start is judged twice, and within how many moments it dies. */
const RECOVERIES = 0.1;
const MENDS = ["any call", "append", "overwrite", "sync", "truncate"];
const RECOVERY_MOMENTS = 200;
const MEND_MOMENTS = 12;

export async function runLife(seed: string, plan = drawPlan(seed)): Promise<LifeResult> {
  const life = new Life(plan);
  const violation = await life.run();
  const { rounds, counts, trace } = life;
  const result = { rounds, trace: trace.toString(16), counts: { ...counts }, plan };
  if (violation === undefined) return result;
  return { ...result, violation: { kind: violation.kind, message: violation.message } };
}

export class Life {
  readonly plan: LifePlan;
  readonly random: Random;
  readonly clock: SimulatedClock;
  readonly rules: RuleBook;
  readonly judge: Judge;
  readonly edits: Edits;
  platter: Platter;
  world!: World;
  /** The folder that is served. */
  folder: Folder;
  backups: Backup[] = [];
  /** Folders that a command began to fill, and did not report. */
  readonly underway = new Map<string, Copying>();
  /** The first numbered backup that this process began. */
  numberedBegun: Copying | undefined;
  /** The same of the process before: a cut may bring back the name that a failed one took back. */
  #numberedBefore: Copying | undefined;
  /** The logs of numbered backups that nobody reported; a cut may bring back one that was removed. */
  readonly #unreported = new Map<string, Buffer[]>();
  /** What a start or a repair has found, until it ends. */
  recovering: { readonly folder: Folder; readonly before: View } | undefined;
  oldCheckpoint: Buffer | undefined;
  /** Whether the process was frozen, or its clock set. */
  isDisturbed = false;
  rounds = 0;
  trace = 0;
  readonly #folders: Folder[] = [];
  readonly #outcomes: Record<string, number> = {};
  #firedBefore = new RuleBook().fired;
  #countsBefore: RuleBook["counts"] = {};

  constructor(plan: LifePlan) {
    this.plan = plan;
    this.random = new Random(plan.seed);
    this.clock = new SimulatedClock(this.random);
    this.rules = new RuleBook({ ...plan.rates });
    this.platter = new Platter(this.clock, this.rules);
    this.platter.onLoss = (file) => {
      for (const folder of this.#folders) this.judge.absorbLoss(folder, file);
    };
    this.judge = new Judge(this.platter, () => this.clock.steadyMs());
    this.edits = new Edits(this);
    this.folder = this.newFolder();
  }

  get counts(): Record<string, number> {
    return { ...this.rules.counts, ...this.#outcomes };
  }

  get isDead(): boolean {
    return this.world.disk.isDead;
  }

  /** Whether a fault may have made a call of this process fail. */
  get hasFaults(): boolean {
    return this.hasFailed || this.hasRefused;
  }

  /** The same, and the disk did not only refuse to take more. */
  get hasFailed(): boolean {
    return this.platter.isReadOnly || this.#firedSince("fault") > 0 || this.isBlind;
  }

  /** The disk refused to take more. */
  get hasRefused(): boolean {
    return this.#firedSince("refusal") > 0;
  }

  /** The disk did not tell what is there. */
  get isBlind(): boolean {
    return this.#firedSince("blind") > 0;
  }

  /** Whether a call of this process took long, or never ended. */
  get isSlow(): boolean {
    return this.#firedSince("delay") > 0;
  }

  #firedSince(kind: RuleKind): number {
    return this.rules.fired[kind] - this.#firedBefore[kind];
  }

  /** Whether a rule has fired in this round. */
  hasFired(rule: RuleName): boolean {
    return (this.rules.counts[rule] ?? 0) > (this.#countsBefore[rule] ?? 0);
  }

  /** The fewest numbered backups that a command keeps. */
  get keepMin(): number {
    const commands = this.plan.rounds.flatMap((round) => round.commands);
    return Math.min(...commands.map((each) => (each.act === "backup into" ? each.keep : 9)));
  }

  /** What a command threw, as its caller may expect it. @throws anything else. */
  failureOf(error: unknown): PlantStoreError {
    if (this.isDead || error instanceof Violation) throw error;
    if (error instanceof PlantStoreError) return error;
    if (!(error instanceof SystemError)) throw error;
    throw new Violation("raw error", error.message);
  }

  /** A command has removed these backups; a cut may bring them back. */
  dropBackups(paths: readonly string[]): void {
    for (const { path, log } of this.backups.filter((each) => paths.includes(each.path))) {
      this.#unreported.set(path, [...(this.#unreported.get(path) ?? []), log]);
    }
    this.backups = this.backups.filter(({ path }) => !paths.includes(path));
  }

  folderAt(path: string): Folder | undefined {
    return this.#folders.find((folder) => folder.path === path);
  }

  newFolder(): Folder {
    const folder = new Folder(`/data-${this.#folders.length + 1}`);
    this.#folders.push(folder);
    return folder;
  }

  note(text: string): void {
    this.trace = crc32(`${text} ${this.clock.steadyMs()} ${this.clock.events}`, this.trace);
  }

  count(outcome: string): void {
    this.#outcomes[outcome] = (this.#outcomes[outcome] ?? 0) + 1;
    this.note(outcome);
  }

  rest(ms: number): Promise<void> {
    const { world } = this;
    return new Promise((resolve) => {
      this.clock.after(ms, () => {
        if (!world.disk.isDead) resolve();
      });
    });
  }

  async run(): Promise<Violation | undefined> {
    try {
      for (const round of this.plan.rounds) {
        await this.#runRound(round);
        this.rounds++;
      }
      await this.#end();
      return undefined;
    } catch (error) {
      if (error instanceof Violation) return error;
      throw error;
    }
  }

  async #runRound(round: RoundPlan): Promise<void> {
    for (const edit of round.edits) this.edits.edit(this.folder, edit);
    this.folder.tokensBefore = this.judge.bytesOf(this.folder.tokenPath);
    await this.#runWorld(round, () => this.#serve(round));
    if (this.hasFaults) this.folder.isRepaired = false;
    this.judge.judgeRemovedTokens(this.folder, `at the end of round ${round.number}`);
    this.judge.judgeAppended(this.folder, `at the end of round ${round.number}`);
    if (round.end.how !== "stop") this.#crash(round);
    this.#judgeAll(`after ${round.end.how} in round ${round.number}`);
    if (/cut/.test(round.end.how)) await this.#judgeRecovery(round.number);
  }

  #makeWorld(number: number, name: string, platter: Platter): World {
    const { clock, rules } = this;
    return new World({ clock, platter, rules, number, random: this.random.fork(name) });
  }

  /** Runs a process until it is done or has died. */
  async #run(world: World, work: () => Promise<void>): Promise<void> {
    const { clock } = this;
    replaceClock(clock);
    replaceDisk(world.disk);
    world.useLocks();
    await world.run(work);
    await clock.endWorld();
    await emptyGates(() => clock.endWorld());
    for (const folder of this.#folders) folder.tokenCommands = 0;
    this.note(`moments ${world.disk.moments} ${world.disk.trace}`);
    if (world.failure !== undefined) throw world.failure;
  }

  /** A start that dies at any moment, and the one after it, leave the bytes that one start leaves. */
  async #judgeRecovery(number: number): Promise<void> {
    const random = this.random.fork(`recovery ${number}`);
    if (!random.chance(RECOVERIES)) return;
    const { path, logPath } = this.folder;
    this.rules.rates = calmRates(this.plan);
    const recover = async (platter: Platter, moment = 0, of = "any call") => {
      const world = this.#makeWorld(number, `recovery ${number} ${moment}`, platter);
      if (moment > 0) world.disk.crashAt(moment, of);
      let outcome = "died";
      await this.#run(world, async () => {
        try {
          await (await PlantStore.open(path, sizesOf(this))).close();
          outcome = "served";
        } catch (error) {
          if (!(error instanceof PlantStoreError)) throw error;
          outcome = error.code;
        }
      });
      const node = platter.find(logPath);
      return `${outcome} ${node?.kind === "file" ? crc32(node.bytes) : "nothing"}`;
    };
    const copy = () => this.platter.crash("cut", random, "everything");
    const once = await recover(copy());
    const interrupted = copy();
    const of = random.pick(MENDS);
    const last = of === "any call" ? RECOVERY_MOMENTS : MEND_MOMENTS;
    await recover(interrupted, random.between(1, last), of);
    const again = random.chance(0.5) ? interrupted : interrupted.crash("cut", random);
    const twice = await recover(again);
    this.rules.rates = { ...this.plan.rates };
    if (once === twice) return;
    // The line feed that the first one gave to a last line may be a zero now: that line is kept aside.
    const { log } = this.judge.view(this.folder);
    const isZero = again !== interrupted && log !== undefined && tailPlant(log).length > 0;
    if (isZero && twice === `served ${crc32(log.bytes.subarray(0, log.end))}`) return;
    throw new Violation("recovery", `a start ends with ${once}; after another that died, ${twice}`);
  }

  async #runWorld(round: RoundPlan, work: () => Promise<void>): Promise<void> {
    const { clock, platter } = this;
    const { number, end, room, isCalm } = round;
    if (isCalm) this.rules.rates = calmRates(this.plan);
    this.world = this.#makeWorld(number, `world ${number}`, platter);
    this.#firedBefore = this.rules.fired;
    this.#countsBefore = { ...this.rules.counts };
    this.recovering = undefined;
    this.#numberedBefore = this.numberedBegun;
    this.numberedBegun = undefined;
    this.isDisturbed = false;
    if (room > 0) platter.bytesMax = platter.bytesUsed + room;
    if (room === 1) platter.nodesMax = platter.nodesUsed + (number % 4);
    if (end.moment > 0) this.world.disk.crashAt(end.moment, end.of);
    clock.after(ROUND_MS_MAX, () => {
      if (!this.world.disk.isDead) this.#hang();
    });
    await this.#run(this.world, work);
    this.platter.bytesMax = Number.POSITIVE_INFINITY;
    this.platter.nodesMax = Number.POSITIVE_INFINITY;
    this.rules.rates = { ...this.plan.rates };
  }

  #hang(): void {
    if (this.isSlow) this.world.disk.die();
    else this.world.fail(new Violation("hang", "something waits for ever"));
  }

  async #serve({ number, before, remedy, commands, end }: RoundPlan): Promise<void> {
    let report: Awaited<ReturnType<typeof verify>>;
    for (const step of before) {
      if (step === "restore") await this.#tolerate(() => restoreBackup(this));
      else if (step === "repair") await repair(this);
      else report = await verify(this);
    }
    if (before.at(-1) !== "verify") report = undefined;
    const amid = this.random.fork(`append amid ${number}`);
    if (amid.chance(APPENDS_AMID)) {
      const choice = { number: amid.below(20), version: amid.below(3) };
      this.edits.appendAmidStart(this.folder, choice, amid.between(1, 25));
    }
    let server = await this.#start(report);
    this.world.disk.onMoment = undefined;
    if (server === undefined) server = await this.#remedy(remedy);
    if (server === undefined) return;
    const isRead = this.random.fork(`read ${number}`).chance(READS);
    await server.run(isRead ? [READ_ALL, ...commands] : commands);
    if (end.how === "stop") await server.close();
    else server.registry.close();
  }

  /** A command of the operator that a fault may end. */
  async #tolerate(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { code, message } = this.failureOf(error);
      this.count(`command: ${code}`);
      if (this.hasFaults && ["io_error", "unsynced", "locked"].includes(code)) return;
      throw new Violation(`needless ${code}`, `a restore fails: ${message}`);
    }
  }

  async #start(report?: Awaited<ReturnType<typeof verify>>): Promise<Server | undefined> {
    const { folder } = this;
    const { changes } = folder;
    try {
      const server = await Server.start(this, folder);
      this.count("start: serves");
      const isSame = changes === folder.changes;
      if (!this.isDead && !this.hasFaults && isSame) compareWithVerify(report, true);
      return server;
    } catch (error) {
      const failure = this.failureOf(error);
      this.count(`start: ${failure.code}`);
      const isMet = changes !== folder.changes && MET_CODES.includes(failure.code);
      if (isMet) this.recovering = undefined;
      else this.#judgeRefusal(folder, failure);
      const isKnown = this.recovering?.before.isUnsynced === false && !this.hasFaults;
      if (failure.code === "corruption" && isKnown) {
        compareWithVerify(report, false);
      }
      this.recovering = undefined;
      return undefined;
    }
  }

  #judgeRefusal(folder: Folder, { code, message }: PlantStoreError): void {
    const before = this.recovering?.before;
    if (code === "corruption" && before !== undefined) {
      this.judge.judgeRefused(folder, before, message);
      if (this.hasFaults) folder.isRepaired = false; // a sync failed since
      if (folder.isRepaired) throw new Violation("repair", `a start refuses after it: ${message}`);
      return;
    }
    // An editor and a command may have appended to one line.
    if (code === "corruption" && (folder.hasBadTokens || folder.tokens.isUncertain)) return;
    const isExcused = this.hasFaults || folder.isRotten;
    if (["io_error", "unsynced", "locked"].includes(code) && isExcused) return;
    throw new Violation(`start: ${code}`, `a start fails: ${message}`);
  }

  /** The operator makes room, waits until the disk works, and does what the documents say. */
  async #remedy(remedy: RoundPlan["remedy"]): Promise<Server | undefined> {
    this.platter.bytesMax = Number.POSITIVE_INFINITY;
    this.platter.nodesMax = Number.POSITIVE_INFINITY;
    this.platter.isReadOnly = false;
    this.rules.rates = calmRates(this.plan);
    const { delay } = this.#firedBefore; // what was slow takes the time of this round
    this.#firedBefore = { ...this.rules.fired, delay };
    this.world.isCalm = true;
    const again = await this.#start();
    if (again !== undefined) return again;
    if (this.judge.tokensOf(this.folder).bad.length > 0) {
      this.edits.mendTokens(this.folder);
      const mended = await this.#start();
      if (mended !== undefined) return mended;
    }
    if (remedy === "repair" && !this.folder.isRotten) {
      await repair(this);
      const repaired = await this.#start();
      if (repaired !== undefined) return repaired;
    } else if (remedy === "restore" && this.backups.length > 0) await restoreBackup(this);
    else this.folder = this.newFolder();
    return this.#start();
  }

  /** Cuts the power of a machine on which nothing runs. */
  cutPower(cut: CutKind): void {
    const { harm } = this.rules.fired;
    const tokens = new Map(this.#folders.map((each) => [each, this.judge.tokensOf(each)]));
    this.platter = this.platter.crash("cut", this.random.fork(`cut ${this.clock.events}`), cut);
    this.judge.platter = this.platter;
    for (const [folder, before] of tokens) this.judge.absorbCut(folder, before);
    if (this.rules.fired.harm === harm) return;
    this.#reportHarm();
    for (const folder of this.#folders) this.judge.absorbHarm(folder);
    this.underway.clear();
    this.backups = this.backups.filter(
      ({ path, log }) => this.judge.bytesOf(`${path}/plants.jsonl`)?.equals(log) === true,
    );
  }

  /** What a disk that damages what was durable, or loses any name, has taken: nothing that the program owes. */
  #reportHarm(): void {
    try {
      this.judge.judgeLog(this.folder, "a harsh cut");
      this.judge.judgeTokens(this.folder, "a harsh cut");
      this.count("harsh cut: all is there");
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.count(`harsh cut: ${error.kind}`);
    }
  }

  #crash({ number, end }: RoundPlan): void {
    if (this.recovering !== undefined) {
      const { folder, before } = this.recovering;
      this.judge.judgeRemoved(folder, before, "a start or a repair that was killed");
    }
    const random = this.random.fork(`crash ${number}`);
    if (end.how !== "cut") this.platter = this.platter.crash("kill", random);
    if (end.how === "kill") return;
    this.#judgeAll("between the kill and the cut");
    this.cutPower(end.cut);
  }

  #judgeAll(how: string): void {
    this.judge.judgeLog(this.folder, how);
    this.judge.judgeTokens(this.folder, how);
    for (const { path, log } of this.backups) this.#judgeBackup(path, log, how);
    for (const [path, copying] of this.underway) this.#judgeUnderway(path, copying, how);
    this.#judgeNumbered(how);
    const log = this.judge.bytesOf(this.folder.logPath) ?? Buffer.alloc(0);
    this.note(`${how}: ${log.length} bytes, ${crc32(log)}`);
  }

  #judgeBackup(path: string, log: Buffer, how: string): void {
    if (this.judge.bytesOf(`${path}/plants.jsonl`)?.equals(log) === true) return;
    if (this.platter.find(path) === undefined && mayBeRemoved(this, path)) return;
    throw new Violation("backup", `${how}: "${path}" is not what it was`);
  }

  /** What a command leaves that did not end is whole, or has another name. */
  #judgeUnderway(path: string, copying: Copying, how: string): void {
    const folder = new Folder(path);
    const isMade = copying.isAtOnce
      ? this.platter.find(path) !== undefined
      : this.judge.bytesOf(folder.logPath) !== undefined;
    if (isMade) judgeCopy(this, folder, copying, how);
  }

  #judgeNumbered(how: string): void {
    const reported = new Set(this.backups.map(({ path }) => path));
    const unreported = numberedBackups(this).filter((path) => !reported.has(path));
    for (const path of unreported) {
      const logs = this.#unreported.get(path) ?? [];
      const found = this.judge.bytesOf(`${path}/plants.jsonl`);
      if (found !== undefined && logs.some((log) => log.equals(found))) continue;
      this.#unreported.set(path, [...logs, this.#judgeUnreported(path, how)]);
    }
  }

  /** It is a copy that this process began, or the one before. Returns its log. */
  #judgeUnreported(path: string, how: string): Buffer {
    let violation = new Violation("backup", `${how}: "${path}"`);
    for (const begun of [this.#numberedBefore, this.numberedBegun]) {
      try {
        if (begun !== undefined) return judgeCopy(this, new Folder(path), begun, how);
      } catch (error) {
        if (!(error instanceof Violation)) throw error;
        violation = error;
      }
    }
    throw violation;
  }

  /** The machine is well again: a start serves everything, and another one finds the same bytes. */
  async #end(): Promise<void> {
    const round = { number: this.plan.rounds.length + 1, room: 0 };
    const end = { how: "stop", of: "any call", moment: 0, cut: "nothing" } as const;
    const plan: RoundPlan = {
      ...round,
      isCalm: true,
      end,
      edits: [],
      before: [],
      remedy: "repair",
      commands: [],
    };
    await this.#runWorld(plan, async () => {
      this.platter.isReadOnly = false;
      this.world.isCalm = true;
      const server = (await this.#start()) ?? (await this.#remedy("repair"));
      if (server === undefined) return;
      await server.readAll();
      await server.close();
      const bytes = this.judge.bytesOf(this.folder.logPath);
      const again = await this.#start();
      if (again === undefined || bytes === undefined) {
        throw new Violation("start again", "a second start refuses");
      }
      await again.close();
      if (this.judge.bytesOf(this.folder.logPath)?.equals(bytes) !== true) {
        throw new Violation("start again", "a second start changes the log");
      }
    });
    this.#judgeAll("at the end");
  }
}

/** Nothing fails any more. */
function calmRates({ rates }: LifePlan): LifePlan["rates"] {
  return Object.fromEntries(Object.keys(rates).map((name) => [name, 0]));
}
