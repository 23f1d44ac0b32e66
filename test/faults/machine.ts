/**
 * Traced processes, limits and small disks. A test that needs something the machine does not
 * permit is skipped, and reports what it needs.
 */
import { type ChildProcess, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, writeLog } from "../support/stores.ts";

/** Whether a program works on this machine; skips the test if not. */
export function canRun(t: TestContext, program: string, ...args: readonly string[]): boolean {
  const { error, status } = spawnSync(program, args, { stdio: "ignore" });
  if (error === undefined && status === 0) return true;
  t.skip(`needs ${program}, ${error === undefined ? "which is not permitted" : "not found"} here`);
  return false;
}

export function canTrace(t: TestContext): boolean {
  return canRun(t, "strace", "-D", "-qq", "-o", "/dev/null", "true");
}

/** Runs a program as process 1 of a namespace of its own; it is killed when its parent ends. */
export const CONTAINER: readonly string[] = [
  "unshare",
  "--pid",
  "--fork",
  "--kill-child",
  "--mount-proc",
];

/** The id of the child of a program, as it is outside the child's namespace. */
export function childOf({ pid }: ChildProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
}

export interface Traced {
  readonly wrapper: readonly string[];
  readonly env: Record<string, string>;
  /** The trace so far. */
  read(): string;
}

/** One thread does all work on files, so `when=` counts every call; io_uring would bypass the trace. */
const TRACEABLE = { UV_THREADPOOL_SIZE: "1", UV_USE_IO_URING: "0" };

/**
 * Runs a process under strace with these options. With -D the process, not strace, is the child of
 * the test, so signals and exit statuses are its own.
 */
export function traced(t: TestContext, options: readonly string[]): Traced {
  const path = join(makeFolder(t), "trace");
  return {
    wrapper: ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-s", "300", "-o", path, ...options],
    env: TRACEABLE,
    read: () => readFileSync(path, "utf8"),
  };
}

/** Injects faults into the calls on the log of a folder; makes that log first. */
export function faulty(t: TestContext, folder: string, ...injections: readonly string[]): Traced {
  writeLog(folder, ""); // so that strace knows the file
  const injects = injections.flatMap((injection) => ["-e", `inject=${injection}`]);
  const calls = "trace=write,pwrite64,ftruncate,fdatasync,fsync";
  return traced(t, ["-P", logPath(folder), "-e", calls, ...injects]);
}

/** Sets a limit of a running process; `limits` is written as for `prlimit`. */
export function limit(pid: number, limits: string): void {
  run("prlimit", "--pid", String(pid), limits);
}

/** A folder that is a file system in memory of its own, until the test ends. */
export function mountSmallDisk(t: TestContext, size: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-disk-"));
  t.after(() => {
    spawnSync("umount", ["-l", folder]); // lazily, because a server may still be there
    rmSync(folder, { recursive: true, force: true });
  });
  if (!canRun(t, "mount", "-t", "tmpfs", "-o", `size=${size},mode=700`, "tmpfs", folder)) {
    return undefined;
  }
  return folder;
}

export function remount(folder: string, options: string): void {
  run("mount", "-o", `remount,${options}`, folder);
}

/** The descriptor that a process would be given next. */
export function nextDescriptor(pid: number): number {
  const open = new Set(readdirSync(`/proc/${pid}/fd`));
  let next = 0;
  while (open.has(String(next))) next++;
  return next;
}

/** How many sockets a process has open. */
export function openSockets(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith("socket:");
    } catch {
      return false; // closed meanwhile
    }
  }).length;
}

/** A field of `/proc/PID/status`. */
export function statusField(pid: number, name: string): string {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return new RegExp(`^${name}:\\s*(.*)$`, "m").exec(text)?.[1] ?? "";
}

function run(program: string, ...args: readonly string[]): void {
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
}
