/**
 * FAKE lock, which every process acquires. It replaces `src/log/lock.ts` in the program that shows how
 * safe a log is if the lock fails.
 */
import type * as real from "../../src/log/lock.ts";

export const locks: typeof real.locks = {
  acquire: async () => ({
    lost: new Promise(() => {}),
    findLoss: () => undefined,
    close: async () => {},
  }),
  askDurableBytes: async () => undefined,
};
