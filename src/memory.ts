/** How much memory there is, and the default of the large budgets; in bytes. */
import { totalmem } from "node:os";

const MIB = 1024 * 1024;

/** The memory of the machine, or of the container if that is smaller. */
function totalMemory(): number {
  return Math.min(process.constrainedMemory?.() || totalmem(), totalmem());
}

/** A thirty-second of the memory; from 4 to 64 MiB. @internal */
export function defaultBudget(): number {
  return Math.floor(Math.min(Math.max(totalMemory() / 32, 4 * MIB), 64 * MIB));
}

/** What of it is still free for this process. @internal */
export function memoryLeft(): number {
  let used = 0;
  try {
    used = process.memoryUsage.rss();
  } catch {} // without /proc
  return totalMemory() - used;
}
