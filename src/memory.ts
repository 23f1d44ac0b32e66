/** How much memory the process may still take, and how much of it each budget lends by default. */
import { totalmem } from "node:os";

const MIB = 1024 * 1024;

/**
 * The memory of the machine, or of the container if that is smaller, less what this process has; at least
 * 16 MiB. In bytes. Not what the system calls free or available: the pages of a large log are in neither.
 *
 * @internal
 */
export function memoryLeft(): number {
  // 2^64 without a limit, 0 if the system does not tell; other runtimes lack it.
  const limit = process.constrainedMemory?.() || Number.POSITIVE_INFINITY;
  return Math.max(16 * MIB, Math.min(limit, totalmem()) - residentBytes());
}

function residentBytes(): number {
  try {
    return process.memoryUsage().rss;
  } catch {
    return 64 * MIB; // without /proc: about what a process has after its start
  }
}

/**
 * A quarter of that, for each of the large budgets: bodies, records that wait for the disk, answers to
 * reads, and requests that wait on their connections. From 4 to 64 MiB, in bytes.
 *
 * @internal
 */
export function defaultBudget(): number {
  return Math.floor(Math.min(memoryLeft() / 4, 64 * MIB));
}
