/** Gives a program what `after` gives a test: what it started ends with it. */
import type { Cleanup } from "./cluster.ts";

/** Runs work, and afterwards its cleanups, the newest first. */
export async function withCleanup<T>(work: (cleanup: Cleanup) => Promise<T>): Promise<T> {
  const ends: (() => unknown)[] = [];
  try {
    return await work({ after: (end) => ends.unshift(end) });
  } finally {
    for (const end of ends) await end();
  }
}
