/**
 * Uses strace to list the system calls that a program makes on a folder, and to kill it at the entry
 * of one of them.
 */
import { spawnSync } from "node:child_process";
import type { Surroundings } from "./program.ts";

export function hasStrace(): boolean {
  return spawnSync("strace", ["-V"]).error === undefined;
}

/** The calls that change the files of a folder, make them durable, or open them. */
export const CHANGING_CALLS: readonly string[] = [
  ...["open", "openat", "creat", "write", "writev", "pwrite64", "pwritev"],
  ...["fsync", "fdatasync", "sync_file_range", "truncate", "ftruncate", "fallocate"],
  ...["rename", "renameat", "renameat2", "link", "linkat", "symlink", "unlink", "unlinkat"],
  ...["mkdir", "mkdirat", "rmdir", "bind", "chmod", "fchmod", "fchmodat", "chown", "fchown"],
];

/** Calls between those; they change nothing. */
export const OTHER_CALLS: readonly string[] = ["statx", "pread64", "getdents64", "close"];

/** A kind of call on one path, and how often the thread that makes it most makes it. */
export interface Place {
  readonly call: string;
  /** Relative to the root; `undefined` for calls that strace cannot select by path. */
  readonly path: string | undefined;
  readonly count: number;
}

/** strace selects calls by their exact path, so random names must be the same in every run. */
const STEADY_NAMES = `import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
const real = crypto.randomBytes;
crypto.randomBytes = (size, ...rest) => (size < 16 ? Buffer.alloc(size, 7) : real(size, ...rest));
syncBuiltinESMExports();`;

const STEADY: Omit<Surroundings, "wrapper"> = {
  nodeArgs: ["--import", `data:text/javascript,${encodeURIComponent(STEADY_NAMES)}`],
  // strace counts calls by thread, and does not see those through io_uring.
  env: { UV_THREADPOOL_SIZE: "1", UV_USE_IO_URING: "0" },
};

/** Lists all calls of these kinds. */
export function recording(trace: string, calls: readonly string[]): Surroundings {
  const filter = `trace=${calls.map((call) => `?${call}`).join()}`;
  return { ...STEADY, wrapper: ["strace", "-f", "-qq", "-y", "-o", trace, "-e", filter] };
}

/** Kills at the entry of a thread's nth call at this place. */
export function killing(
  trace: string,
  root: string,
  { call, path }: Place,
  nth: number,
): Surroundings {
  const only = path === undefined ? [] : ["-P", root + path];
  const inject = `inject=${call}:signal=KILL:when=${nth}`;
  const filter = ["-e", `trace=${call}`, "-e", inject];
  return { ...STEADY, wrapper: ["strace", "-f", "-qq", "-o", trace, ...only, ...filter] };
}

/** The places of a trace that are below the root. */
export function readPlaces(trace: string, root: string): Place[] {
  const counts = new Map<string, Map<string, number>>();
  for (const line of trace.split("\n")) {
    const [, thread = "", call, args = ""] = /^([0-9]+) +([a-z0-9_]+)\((.*)/.exec(line) ?? [];
    const at = args.indexOf(root);
    if (call === undefined || at < 0) continue;
    // "bind" has its path in an address, which strace does not compare.
    const path = call === "bind" ? "" : /^[^">, ]*/.exec(args.slice(at + root.length))?.[0];
    const key = `${call} ${path}`;
    const threads = counts.get(key) ?? new Map<string, number>();
    counts.set(key, threads.set(thread, (threads.get(thread) ?? 0) + 1));
  }
  return [...counts].map(([key, threads]) => {
    const [call = "", path = ""] = key.split(" ");
    const count = Math.max(...threads.values());
    return { call, path: call === "bind" ? undefined : path, count };
  });
}

/** Whether the trace says that the program was killed. */
export function wasKilled(trace: string): boolean {
  return trace.includes("+++ killed by SIGKILL +++");
}
