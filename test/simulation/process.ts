/** One process of a simulated life, from its first instruction to its death. */
import { setDisk } from "../../src/log/disk.ts";
import { setLocks } from "../../src/log/lock.ts";
import { type DiskOptions, SimulatedDisk } from "./disk.ts";
import { SimulatedLocks } from "./locks.ts";
import type { Rates, RuleName } from "./rules.ts";

/** What breaks a promise of the store: the life ends with it. */
export class Violation extends Error {
  /** Equal for violations of one promise. */
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Rules that make a call fail. */
export const FAILURES = /^(append: [nfi]|truncate|sync|room|open|stat|list|names|read: f)/;
/** Those after which a store stops. */
export const HARD_FAILURES = /^(append: [fi]|truncate|sync|open|stat|list|names|read: f)/;
/** Those after which it goes on. */
export const REFUSALS = /^(append: n|room|read: f)/;
/** Rules that make a call slow, or never return, or that set a clock. */
export const DELAYS = /^time: (?!completions)/;

/** Longer than any work that nothing holds up. */
const PATIENCE_MS = 60_000;

export class SimulatedProcess {
  readonly disk: SimulatedDisk;
  readonly locks: SimulatedLocks;
  hasEnded = false;
  readonly #before: Rates;

  constructor(options: DiskOptions) {
    this.disk = new SimulatedDisk(options);
    this.locks = new SimulatedLocks(this.disk);
    this.#before = { ...options.rules.counts };
    setDisk(this.disk);
    setLocks(this.locks);
  }

  get isDead(): boolean {
    return this.disk.isDead;
  }

  /** Whether a rule of such a name has fired since this process began. */
  hasMet(names: RegExp): boolean {
    const counts = Object.entries(this.disk.rules.counts) as [RuleName, number][];
    return counts.some(([rule, count]) => names.test(rule) && count > (this.#before[rule] ?? 0));
  }

  /** Runs the work until it is done, or the process dies. @throws Violation also for work that does not end. */
  async run(work: () => Promise<void>): Promise<void> {
    const { clock, crashed } = this.disk;
    const end = () => {
      this.hasEnded = !this.isDead;
    };
    const done = work().then(end, (error) => {
      if (error instanceof Violation || !this.isDead) throw error;
    });
    const late = clock.rest(PATIENCE_MS).then(() => {
      if (!this.hasMet(DELAYS)) throw new Violation("stuck", "the work does not end");
    });
    await clock.run(Promise.race([done, late, crashed])).finally(() => this.disk.die());
  }
}
