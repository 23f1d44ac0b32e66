/** Work in a program as in a test: what it started ends with it. */
import type { Scope } from "./cluster.ts";

/** Runs work and then, the newest first, what it left to be done. */
export async function withScope<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
  const ends: (() => unknown)[] = [];
  try {
    return await work({ after: (end) => ends.unshift(end) });
  } finally {
    for (const end of ends) await end();
  }
}
