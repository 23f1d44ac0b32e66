/**
 * The disk as one process of a simulation sees it: the port of `src/log/disk.ts` over a platter.
 *
 * Invariants. Each operation has three moments: it is issued, it is applied (every process sees what it did),
 * and it returns (what it promised is durable). The process may die at each of them. Then its operations never
 * return, and synchronous ones throw; what was under way may still land, in part.
 */
import type { Disk, FileState, OpenFile } from "../../src/log/disk.ts";
import type { SimulatedClock } from "./clock.ts";
import { FileNode } from "./inode.ts";
import { openFile, stateOf } from "./open-file.ts";
import { type Platter, SystemError } from "./platter.ts";
import { hashText, type Random } from "./random.ts";
import type { RuleBook, RuleName } from "./rules.ts";

export interface DiskOptions {
  readonly platter: Platter;
  readonly clock: SimulatedClock;
  readonly random: Random;
  readonly rules: RuleBook;
}

type MomentKind = "issued" | "applied" | "returned";

/** What an operation does. Each may throw the system's error. */
interface Work<T> {
  apply(random: Random): T;
  /** Makes durable what was promised. */
  finish?(value: T, random: Random): void;
  /** What of it happens if the process dies before it was applied: all, or a part that `random` chooses. */
  land?(random: Random, isWhole: boolean): void;
}

interface Operation extends Pick<Work<unknown>, "land"> {
  readonly call: string;
  readonly path: string;
  readonly random: Random;
  isApplied: boolean;
}

const LATENCY_MS = 0.1;

export class SimulatedDisk implements Disk {
  readonly platter: Platter;
  readonly clock: SimulatedClock;
  readonly rules: RuleBook;
  readonly crashed: Promise<void>;
  isDead = false;
  /** A hash of all moments and their times. */
  trace = 0;
  /** Receives each moment before the process learns of it: another program acts in the middle of a call here. */
  onMoment: ((kind: MomentKind, call: string) => void) | undefined;
  readonly #random: Random;
  /** The operations that have not returned, in the order in which they were issued. */
  readonly #flights = new Set<Operation>();
  readonly #counts = new Map<string, number>();
  #momentsLeft = Number.POSITIVE_INFINITY;
  #crashCall = "any call";
  #reportCrash: () => void = () => {};

  constructor({ platter, clock, random, rules }: DiskOptions) {
    this.platter = platter;
    this.clock = clock;
    this.rules = rules;
    this.#random = random.fork("disk");
    this.crashed = new Promise((resolve) => {
      this.#reportCrash = resolve;
    });
  }

  /** Has the process die at this moment from now, counted from 1: one of all, or of those of one kind of call. */
  crashAt(moment: number, call: string): void {
    this.#momentsLeft = moment;
    this.#crashCall = call;
  }

  die(): void {
    if (this.isDead) return;
    this.isDead = true;
    for (const { land, random, isApplied } of this.#flights) {
      if (isApplied || land === undefined) continue;
      const isWhole = this.rules.fires("crash: a call lands whole", random);
      if (!isWhole && !this.rules.fires("crash: a call lands in part", random)) continue;
      try {
        land(random.fork("landing"), isWhole);
      } catch {} // the dead are not told
    }
    this.#reportCrash();
  }

  #begin(call: string, path: string, land?: Work<unknown>["land"]): Operation {
    const key = `${call} ${path}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    const random = this.#random.fork(`${key} ${count}`);
    return { call, path, random, isApplied: false, ...(land && { land }) };
  }

  /** Returns false if the process has died at it. */
  #passes(kind: MomentKind, { call, path }: Operation): boolean {
    this.trace = hashText(`${kind} ${call} ${path} ${this.clock.monotonicMs()}`, this.trace);
    this.onMoment?.(kind, call);
    if (this.#crashCall === call || this.#crashCall === "any call") this.#momentsLeft--;
    if (this.#momentsLeft <= 0 && !this.isDead) {
      this.rules.count(`crash: ${kind}`);
      this.die();
    }
    return !this.isDead;
  }

  now<T>(call: string, path: string, apply: (random: Random) => T): T {
    if (this.isDead) throw new Error(`${call}: the process is dead`);
    const operation = this.#begin(call, path);
    const pass = (kind: MomentKind) => {
      if (this.#passes(kind, operation)) return;
      this.rules.count("crash: in a synchronous call");
      throw new Error(`${call}: the process is dead`);
    };
    pass("issued");
    const value = apply(operation.random);
    pass("applied");
    pass("returned");
    return value;
  }

  /** @throws SystemError with one of these codes if chance will have it. @internal */
  maybeFail(rule: RuleName, random: Random, ...codes: string[]): void {
    if (this.rules.fires(rule, random)) throw new SystemError(random.pick(codes), rule);
  }

  /** An operation that takes its time. It never settles if the process dies before. @internal */
  async later<T>(call: string, path: string, work: Work<T>): Promise<T> {
    if (this.isDead) return never();
    const operation = this.#begin(call, path, work.land);
    const { random } = operation;
    this.#flights.add(operation);
    if (!this.#passes("issued", operation)) return never();
    await this.#pause(random);
    let finish: () => T;
    try {
      const value = work.apply(random);
      operation.isApplied = true;
      finish = () => {
        work.finish?.(value, random);
        return value;
      };
    } catch (error) {
      finish = () => {
        throw error;
      };
    }
    if (operation.isApplied && !this.#passes("applied", operation)) return never();
    await this.#pause(random);
    const [first] = this.#flights;
    if (first !== operation) this.rules.count("time: completions change places");
    this.#flights.delete(operation);
    try {
      return finish();
    } finally {
      if (!this.#passes("returned", operation)) await never();
    }
  }

  async #pause(random: Random): Promise<void> {
    if (this.rules.fires("time: never", random)) return never();
    const isSlow = this.rules.fires("time: slow", random);
    await this.clock.rest(
      random.exponential(LATENCY_MS) + (isSlow ? random.between(500, 8000) : 0),
    );
    return this.isDead ? never() : undefined;
  }

  #find(filePath: string, random: Random): FileNode {
    this.maybeFail("open: fails", random, "EMFILE", "EIO", "EACCES");
    const node = this.platter.find(filePath);
    if (node === undefined) throw new SystemError("ENOENT", "open", filePath);
    if (node.kind !== "file") throw new SystemError("EISDIR", "open", filePath);
    return node;
  }

  openForReading(filePath: string): Promise<OpenFile> {
    const apply = (random: Random) => openFile(this, filePath, this.#find(filePath, random), false);
    return this.later("openForReading", filePath, { apply });
  }

  readFile(filePath: string): Promise<Buffer> {
    const apply = (random: Random) => {
      const node = this.#find(filePath, random);
      this.maybeFail("read: fails", random, "EIO");
      if (node.isUnreadable(0, node.bytes.length)) throw new SystemError("EIO", "read");
      return Buffer.from(node.bytes);
    };
    return this.later("readFile", filePath, { apply });
  }

  openForAppending(filePath: string): Promise<OpenFile> {
    const land = () => {
      if (this.platter.find(filePath) === undefined) this.platter.create(filePath, new FileNode());
    };
    const apply = (random: Random) => {
      land(); // it may fail after that, too
      return openFile(this, filePath, this.#find(filePath, random), true);
    };
    return this.later("openForAppending", filePath, { apply, land });
  }

  stat(filePath: string): FileState | undefined {
    return this.now("stat", filePath, (random) => {
      this.maybeFail("stat: fails", random, "EIO", "EACCES");
      const node = this.platter.find(filePath);
      return node && stateOf(node);
    });
  }

  list(folder: string): string[] {
    return this.now("list", folder, (random) => {
      this.maybeFail("list: fails", random, "EIO", "EMFILE");
      const names = this.platter.list(folder);
      return random.chance(0.5) ? names : names.reverse();
    });
  }

  #changeNames(call: string, filePath: string, change: () => void): void {
    this.now(call, filePath, (random) => {
      const isDone = random.chance(0.5); // it may fail all the same
      if (isDone) change();
      this.maybeFail("names: a change fails", random, "EIO", "ENOSPC", "EACCES");
      if (!isDone) change();
    });
  }

  rename(from: string, to: string): void {
    this.#changeNames("rename", `${from} ${to}`, () => this.platter.rename(from, to));
  }

  readonly unlink = (filePath: string) =>
    this.#changeNames("unlink", filePath, () => this.platter.unlink(filePath));
  readonly makeFolder = (folder: string) =>
    this.#changeNames("makeFolder", folder, () =>
      this.platter.create(folder, { kind: "folder" }, "mkdir"),
    );
  readonly removeFolder = (folder: string) =>
    this.#changeNames("removeFolder", folder, () => this.platter.removeFolder(folder));

  syncFolder(folder: string): Promise<void> {
    return this.later("syncFolder", folder, {
      apply: () => void this.platter.list(folder),
      finish: (_, random) => {
        if (!this.rules.fires("syncFolder: fails", random)) return this.platter.commitNames(folder);
        this.platter.failNames(random);
        throw new SystemError("EIO", "fsync", folder);
      },
    });
  }
}

/** Not one promise for all: it would keep what waits for it. */
const never = () => new Promise<never>(() => {});
