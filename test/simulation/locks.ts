/**
 * The locks of a simulation: who holds a folder, and how much of its log is durable.
 *
 * Invariants. A lock leaves an entry in the folder, as the real one does, and dies with its process. What is
 * simulated is what callers rely on; the sockets themselves are tested with real processes.
 */
import path from "node:path";
import { PlantStoreError } from "../../src/core/errors.ts";
import { ioError } from "../../src/log/disk.ts";
import type { HeldLock, LockOptions, Locks } from "../../src/log/lock.ts";
import type { SimulatedClock } from "./clock.ts";
import type { SimulatedDisk } from "./disk.ts";
import type { Platter, PlatterNode } from "./platter.ts";
import type { Random } from "./random.ts";

const RETRY_MS = 10;
const ANSWER_MS = 0.2;
const CHECK_INTERVAL_MS = 500;

/** The locks that the processes of one machine hold. Make another after a crash. */
export class SimulatedLocks implements Locks {
  readonly #disk: SimulatedDisk;
  readonly #clock: SimulatedClock;
  readonly #platter: Platter;
  readonly #random: Random;
  #asked = 0;
  readonly #held = new Map<PlatterNode, Held>();

  constructor(disk: SimulatedDisk, clock: SimulatedClock) {
    this.#random = disk.random.fork("locks");
    this.#disk = disk;
    this.#clock = clock;
    this.#platter = disk.platter;
  }

  async acquire(directory: string, options: LockOptions): Promise<HeldLock> {
    const deadline = this.#clock.steadyMs() + (options.waitMs ?? 0);
    for (;;) {
      await this.#pause(ANSWER_MS);
      if (this.#platter.find(directory)?.kind !== "folder") {
        throw new PlantStoreError("io_error", `Cannot use "${directory}": there is no such folder`);
      }
      const { number, holder } = this.#highest(directory, options.name);
      if (holder === undefined) {
        if (number > 0) this.#disk.rules.count("lock: its holder is dead");
        try {
          return this.#take(directory, options, number + 1);
        } catch (cause) {
          throw ioError(`Cannot lock "${directory}"`, cause);
        }
      }
      this.#disk.rules.count("lock: held");
      if (this.#clock.steadyMs() >= deadline) throw lockedError(directory, holder.options.command);
      await this.#pause(RETRY_MS);
    }
  }

  async askDurableBytes(directory: string, name: string): Promise<number | undefined> {
    await this.#pause(ANSWER_MS);
    const { holder } = this.#highest(directory, name);
    if (holder === undefined) return undefined;
    const random = this.#random.fork(`${directory} ${++this.#asked}`);
    const isSilent = this.#disk.rules.fires("lock: its holder is silent", random);
    const bytes = isSilent ? undefined : holder.options.durableBytes?.();
    if (bytes === undefined) throw lockedError(directory, holder.options.command);
    return bytes;
  }

  /** Removes the entry of a lock, as a program does that sweeps a folder. */
  lose(directory: string, name: string): void {
    const { number } = this.#highest(directory, name);
    if (number === 0) return;
    this.#disk.rules.count("lock: its entry is removed");
    this.#platter.unlink(path.join(directory, `${name}.${number}`));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.after(ms, () => {
        if (!this.#disk.isDead) resolve();
      });
    });
  }

  #highest(directory: string, name: string): { number: number; holder: Held | undefined } {
    const folder = this.#platter.find(directory);
    let number = 0;
    for (const found of folder?.kind === "folder" ? folder.names.keys() : []) {
      if (!found.startsWith(`${name}.`)) continue;
      const of = Number(found.slice(name.length + 1));
      if (of > number) number = of;
    }
    const entry = this.#platter.find(path.join(directory, `${name}.${number}`));
    return { number, holder: entry === undefined ? undefined : this.#held.get(entry) };
  }

  #take(directory: string, options: LockOptions, number: number): HeldLock {
    const entryPath = path.join(directory, `${options.name}.${number}`);
    const entry = this.#platter.create(entryPath, "other", "link");
    for (let below = number - 1; below > 0; below--) {
      const old = path.join(directory, `${options.name}.${below}`);
      if (this.#platter.find(old) === undefined) break;
      this.#platter.unlink(old);
    }
    const isThere = () => this.#platter.find(entryPath) === entry;
    const lock = new Held(options, this.#clock, isThere, () => this.#held.delete(entry));
    this.#held.set(entry, lock);
    return lock;
  }
}

class Held implements HeldLock {
  readonly lost: Promise<Error>;
  readonly options: LockOptions;
  readonly #isThere: () => boolean;
  readonly #release: () => void;
  readonly #stopChecks: () => void;
  #loss: Error | undefined;
  #reportLoss: (loss: Error) => void = () => {};

  constructor(
    options: LockOptions,
    clock: SimulatedClock,
    isThere: () => boolean,
    release: () => void,
  ) {
    this.options = options;
    this.#isThere = isThere;
    this.#release = release;
    this.lost = new Promise((resolve) => {
      this.#reportLoss = resolve;
    });
    const checking = clock.setInterval(() => this.findLoss(), CHECK_INTERVAL_MS);
    this.#stopChecks = () => clock.clearInterval(checking);
  }

  findLoss(): Error | undefined {
    if (this.#loss === undefined && !this.#isThere()) {
      this.#loss = new Error("the entry of the lock was removed or replaced");
      this.#stopChecks();
      this.#reportLoss(this.#loss);
    }
    return this.#loss;
  }

  async close(): Promise<void> {
    this.#stopChecks();
    this.#release();
  }
}

function lockedError(directory: string, command: string): PlantStoreError {
  return new PlantStoreError("locked", `Cannot use "${directory}": it is in use by "${command}"`);
}
