/**
 * FAKE lock, which every process acquires. It replaces `src/log/lock.ts` in the program that shows how
 * safe a log is if the lock fails.
 */
import type * as real from "../../src/log/lock.ts";

export class DirectoryLock implements Pick<real.DirectoryLock, keyof real.DirectoryLock> {
  readonly lost = new Promise<Error>(() => {});

  static async acquire(): Promise<DirectoryLock> {
    return new DirectoryLock();
  }

  findLoss(): undefined {
    return undefined;
  }

  async close(): Promise<void> {}
}

export const askDurableBytes: typeof real.askDurableBytes = async () => undefined;
