/** Uses strace to kill a program at the entry of a system call. */
import type { Surroundings } from "./program.ts";

/** Kills at the entry of the first such call on a file. */
export function killing(trace: string, path: string, call: string): Surroundings {
  const filter = ["-P", path, "-e", `trace=${call}`, "-e", `inject=${call}:signal=KILL:when=1`];
  return {
    wrapper: ["strace", "-f", "-qq", "-o", trace, ...filter],
    // strace counts calls by thread, and does not see those through io_uring.
    env: { UV_THREADPOOL_SIZE: "1", UV_USE_IO_URING: "0" },
  };
}
