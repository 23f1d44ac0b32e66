/**
 * One process of a simulated life, from its first instruction to its death.
 */
import { PlantStoreError } from "../../src/core/errors.ts";
import * as lockPort from "../../src/log/lock.ts";
import { type SimulatedClock, StuckError } from "./clock.ts";
import { DeadError, SimulatedDisk } from "./disk.ts";
import { Violation } from "./ledger.ts";
import { SimulatedLocks } from "./locks.ts";
import type { Platter } from "./platter.ts";
import type { Random } from "./random.ts";
import type { RuleBook } from "./rules.ts";

export interface WorldOptions {
  readonly clock: SimulatedClock;
  readonly platter: Platter;
  readonly rules: RuleBook;
  readonly random: Random;
  /** Of its round. */
  readonly number: number;
}

export class World {
  readonly number: number;
  readonly disk: SimulatedDisk;
  readonly locks: SimulatedLocks;
  readonly random: Random;
  /** Faults were switched off. */
  isCalm = false;
  /** What ends the life. */
  failure: unknown;
  readonly #clock: SimulatedClock;

  constructor({ clock, platter, rules, random, number }: WorldOptions) {
    this.number = number;
    this.random = random;
    this.#clock = clock;
    this.disk = new SimulatedDisk({ platter, clock, random, rules });
    this.locks = new SimulatedLocks(this.disk, clock);
  }

  useLocks(): void {
    lockPort.replaceLocks(this.locks);
  }

  /** Ends the life, and with it this process. */
  fail(error: unknown): void {
    this.failure ??= error;
    this.disk.die();
  }

  /** Runs the work until it is done, or the process dies. */
  async run(work: () => Promise<void>): Promise<void> {
    const done = work().catch((error) => {
      if (this.disk.isDead && !(error instanceof Violation)) return;
      if (error instanceof DeadError) return;
      const isUnexpected = error instanceof PlantStoreError;
      this.fail(isUnexpected ? new Violation(`error ${error.code}`, error.message) : error);
    });
    try {
      await this.#clock.run(Promise.race([done, this.disk.crashed]));
    } catch (error) {
      if (!(error instanceof StuckError)) throw error;
      this.fail(new Violation("stuck", error.message));
    }
    this.disk.die();
  }
}
