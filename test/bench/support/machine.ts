/**
 * The machine a number was measured on, and what of it a bench may use:
 * processor cores to pin to, a folder on a real disk.
 */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { median } from "./numbers.ts";

const TMPFS = 0x01021994;

/** Whether a program is installed. */
export function isInstalled(program: string, args: readonly string[] = ["--version"]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).error === undefined;
}

/** The words that pin a program to a core: 0 for servers, 1 for load. None if that is impossible. */
export function pinned(role: 0 | 1): string[] {
  const core = cores[role];
  return core === undefined || cores.length < 2 ? [] : ["taskset", "-c", String(core)];
}

const cores = allowedCores();

function allowedCores(): number[] {
  if (process.platform !== "linux" || !isInstalled("taskset")) return [];
  const status = fs.readFileSync("/proc/self/status", "utf8");
  const list = /Cpus_allowed_list:\s*(\S+)/.exec(status)?.[1] ?? "";
  return list.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

export const NOTHING_PINNED = "nothing pinned";

/** One line for the head of a report. */
export function describeMachine(
  directory: string,
  nodeVersion = process.version,
  pins = cores.length < 2 ? NOTHING_PINNED : `pinned to cores ${cores[0]} and ${cores[1]}`,
): string {
  const cpus = os.cpus();
  const memory = Math.round(os.totalmem() / 2 ** 30);
  return (
    `${cpus.length} x ${cpus[0]?.model.trim()}, ${memory} GiB, ${os.type()} ${os.release()}, ` +
    `Node ${nodeVersion}, a synced 4 KiB write takes ${syncedWriteUs(directory)} µs, ${pins}, ` +
    `load average ${os.loadavg()[0]?.toFixed(1)} at the start`
  );
}

/** Everything here waits for synced writes, so a report has the time that one takes. */
function syncedWriteUs(directory: string): number {
  const { O_CREAT, O_RDWR, O_DSYNC } = fs.constants;
  const file = path.join(directory, "sync-probe");
  const fd = fs.openSync(file, O_CREAT | O_RDWR | (O_DSYNC ?? 0), 0o600);
  const block = Buffer.alloc(4096, " ");
  const samples = Array.from({ length: 100 }, (_, index) => {
    const start = performance.now();
    fs.writeSync(fd, block, 0, block.length, index * block.length);
    return (performance.now() - start) * 1000;
  });
  fs.closeSync(fd);
  fs.rmSync(file);
  return Math.round(median(samples));
}

/** Calls `use` with a new folder, and always removes the folder afterwards. */
export async function withFolder<T>(
  parent: string | undefined,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(parent ?? os.tmpdir(), "plant-bench-")));
  const remove = () => fs.rmSync(folder, { recursive: true, force: true });
  const end = () => process.exit(1); // what was started ends, too: see support/program
  process.once("exit", remove).once("SIGINT", end).once("SIGTERM", end);
  try {
    if (fs.statfsSync(folder).type === TMPFS) {
      process.stderr.write(`"${folder}" is in memory, where a sync is nothing: use --dir\n`);
    }
    return await use(folder);
  } finally {
    remove();
    process.off("exit", remove).off("SIGINT", end).off("SIGTERM", end);
  }
}

/** Prints a line of progress on standard error. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}
