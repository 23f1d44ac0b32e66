/**
 * The locks of a simulated process: who holds a folder, and how much of its log is durable.
 *
 * Invariants. A lock leaves an entry in the folder, as the real one does, and dies with its process. What is
 * simulated is what callers rely on; the sockets themselves are tested with real processes.
 */
import path from "node:path";
import { PlantStoreError } from "../../src/core/errors.ts";
import { withIoError } from "../../src/log/disk.ts";
import type { HeldLock, Holder, LockOptions, Locks } from "../../src/log/lock.ts";
import type { SimulatedDisk } from "./disk.ts";
import type { PlatterNode } from "./platter.ts";

const RETRY_MS = 10;
const RESPONSE_MS = 0.2;

export class SimulatedLocks implements Locks {
  readonly #disk: SimulatedDisk;
  readonly #held = new Map<PlatterNode, LockOptions>();

  constructor(disk: SimulatedDisk) {
    this.#disk = disk;
  }

  acquire(directory: string, options: LockOptions): Promise<HeldLock> {
    const { clock, rules } = this.#disk;
    const deadline = clock.monotonicMs() + (options.waitMs ?? 0);
    return withIoError(`Cannot lock "${directory}"`, async () => {
      for (;;) {
        await clock.rest(RESPONSE_MS);
        const { number, holder } = this.#highest(directory, options.name);
        if (holder === undefined) {
          if (number > 0) rules.count("lock: its holder is dead");
          return this.#take(directory, options, number + 1);
        }
        rules.count("lock: held");
        if (clock.monotonicMs() >= deadline) {
          throw new PlantStoreError("locked", `"${directory}" is in use by "${holder.command}"`);
        }
        await clock.rest(RETRY_MS);
      }
    });
  }

  async findHolder(directory: string, name: string): Promise<Holder | undefined> {
    await this.#disk.clock.rest(RESPONSE_MS);
    const { holder } = this.#highest(directory, name);
    const durableBytes = holder?.durableBytes?.();
    return holder && { pid: 1, host: "", command: holder.command, since: "", durableBytes };
  }

  removeEntry(directory: string, name: string): void {
    const { number } = this.#highest(directory, name);
    this.#disk.platter.unlink(path.join(directory, `${name}.${number}`));
  }

  #highest(directory: string, name: string): { number: number; holder: LockOptions | undefined } {
    const { platter } = this.#disk;
    const entries = platter.list(directory).filter((entry) => entry.startsWith(`${name}.`));
    const numbers = entries.map((entry) => Number(entry.slice(name.length + 1)));
    const number = Math.max(0, ...numbers.filter(Number.isInteger));
    const node = platter.find(path.join(directory, `${name}.${number}`));
    return { number, holder: node && this.#held.get(node) };
  }

  #take(directory: string, options: LockOptions, number: number): HeldLock {
    const { platter } = this.#disk;
    const entryPath = path.join(directory, `${options.name}.${number}`);
    const entry = { kind: "socket" } as const;
    platter.create(entryPath, entry, "link");
    platter.unlink(path.join(directory, `${options.name}.${number - 1}`));
    this.#held.set(entry, options);
    const assertHeld = () => {
      if (platter.find(entryPath) === entry) return;
      throw new PlantStoreError("locked", `"${entryPath}" was removed or replaced`);
    };
    return { assertHeld, close: async () => void this.#held.delete(entry) };
  }
}
