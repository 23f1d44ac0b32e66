/** Processes that together may hold only so much memory, as in a container: a memory cgroup of Linux. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

export interface MemoryCgroup {
  /** The first words of a command that then runs inside, for `wrapper` of `startServer`. */
  readonly wrapper: readonly string[];
  /** The most that was held at one time, with the page cache of files that were read and written. */
  peakBytes(): number;
  /** How many processes the kernel has killed because the memory was exhausted. */
  kills(): number;
}

/** Of version 2, and of version 1. Without swap, as in a container that has none. */
const VERSIONS = [
  {
    root: "/sys/fs/cgroup",
    limits: ["memory.max"],
    swap: "memory.swap.max",
    peak: "memory.peak",
    events: "memory.events",
  },
  {
    root: "/sys/fs/cgroup/memory",
    limits: ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], // in this order
    swap: "memory.swappiness",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
  },
] as const;

let made = 0;

/**
 * Makes a cgroup that is removed when the test ends; a process that is then still inside goes on outside.
 * Returns what is needed if this machine does not have it.
 *
 * @param bytesMax no limit if it is left out.
 */
export function makeMemoryCgroup(t: TestContext, bytesMax?: number): MemoryCgroup | string {
  const name = `plant-store-${process.pid}-${made++}`;
  const version = VERSIONS.find(({ root, peak }) => {
    const trial = join(root, name);
    try {
      mkdirSync(trial);
    } catch {
      return false;
    }
    if (existsSync(join(trial, peak))) return true;
    rmdirSync(trial); // its version has no memory controller here
    return false;
  });
  if (version === undefined) return "needs root and memory cgroups";
  const { root, limits, swap, peak, events } = version;
  const group = join(root, name);
  t.after(() => {
    const moved = `for p in $(cat ${group}/cgroup.procs); do echo $p > ${root}/cgroup.procs; done`;
    spawnSync("sh", ["-c", moved]);
    rmdirSync(group);
  });
  const set = (file: string, value: string) => {
    if (existsSync(join(group, file))) writeFileSync(join(group, file), value);
  };
  if (bytesMax !== undefined) for (const file of limits) set(file, String(bytesMax));
  set(swap, "0");
  const read = (file: string) => readFileSync(join(group, file), "utf8");
  return {
    wrapper: ["sh", "-c", `echo $$ > ${group}/cgroup.procs && exec "$@"`, "sh"],
    peakBytes: () => Number(read(peak)),
    kills: () => Number(/^oom_kill (\d+)$/m.exec(read(events))?.[1]),
  };
}
