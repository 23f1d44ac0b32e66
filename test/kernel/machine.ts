/**
 * What tests do to a real kernel: traced processes with injected faults, limits, small disks, namespaces. A test
 * that needs something this machine lacks is skipped, with the reason.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { makeFolder } from "../support/folders.ts";

/** Whether a program works on this machine; skips the test if not. */
export function canRun(t: TestContext, ...words: readonly string[]): boolean {
  const [program = "", ...args] = words;
  const { error, status } = spawnSync(program, args, { stdio: "ignore" });
  if (error === undefined && status === 0) return true;
  t.skip(`needs ${program}, ${error === undefined ? "which is not permitted" : "not found"} here`);
  return false;
}

export function canTrace(t: TestContext): boolean {
  return canRun(t, "strace", "-D", "-qq", "-o", "/dev/null", "true");
}

/** Runs a program to its end. @throws Error unless it succeeds. */
export function execute(program: string, ...args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return;
  throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
}

/** Runs a program as process 1 of a namespace of its own; it is killed when its parent ends. */
export const CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/**
 * Runs a process under strace with these options. With -D the process, not strace, is the child of the test, so
 * signals and exit statuses are its own. io_uring would bypass the trace, which `read` returns so far.
 */
export function traced(t: TestContext, options: readonly string[], env = {}) {
  const path = join(makeFolder(t), "trace");
  return {
    wrapper: ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-s", "300", "-o", path, ...options],
    env: { UV_USE_IO_URING: "0", ...env },
    read: () => readFileSync(path, "utf8"),
  };
}

/** Injects faults into the calls on a file, as `CALL:error=EIO:when=2`. */
export function faulty(t: TestContext, path: string, faults: readonly string[]) {
  const calls = faults.map((fault) => fault.split(":")[0]).join();
  const options = faults.flatMap((fault) => ["-e", `inject=${fault}`]);
  // `when=` counts the calls of each thread.
  const env = faults.join().includes("when=") ? { UV_THREADPOOL_SIZE: "1" } : {};
  return traced(t, ["-P", path, "-e", `trace=${calls}`, ...options], env);
}

export type Call = Readonly<Record<"name" | "args" | "result", string>>;

/** The calls of a trace, in the order in which they ended. */
export function readCalls(trace: string): Call[] {
  const begun = new Map<string, string>();
  return trace.split("\n").flatMap((line) => {
    const [, pid = "", rest = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const [, unfinished] = /^(.*?) *<unfinished \.\.\.>$/.exec(rest) ?? [];
    if (unfinished !== undefined) begun.set(pid, unfinished);
    const whole = rest.replace(/^<\.\.\. \w+ resumed>/, () => begun.get(pid) ?? "");
    const [, name = "", args = "", result = ""] = /^(\w+)\((.*)\) += (.*)$/.exec(whole) ?? [];
    return name === "" ? [] : [{ name, args, result }];
  });
}

/** The folder of a tmpfs with these options, until the test ends; skips the test if that is not permitted. */
export function mountSmallDisk(t: TestContext, options: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-disk-"));
  t.after(() => {
    spawnSync("umount", ["-l", folder]); // lazily, because a server may still be there
    rmSync(folder, { recursive: true, force: true });
  });
  const isMounted = canRun(t, "mount", "-t", "tmpfs", "-o", `mode=700,${options}`, "tmpfs", folder);
  return isMounted ? folder : undefined;
}

/** A field of `/proc/PID/status`. */
export function statusField(pid: number, name: string): string {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return new RegExp(`^${name}:\\s*(.*)$`, "m").exec(text)?.[1] ?? "";
}
