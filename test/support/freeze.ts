/** Ways to freeze a process, as an operator, a container or a suspended machine does. */
import { spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  rmdirSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { makeFolder } from "./folders.ts";
import { until } from "./watch.ts";

export interface Freezer {
  /** For the environment of the process. */
  readonly env: Record<string, string>;
  freeze(pid: number): void;
  thaw(pid: number): void;
}

/** Makes freezers; a reason if this machine has not what it takes. */
export const FREEZERS: Readonly<Record<string, (t: TestContext) => Freezer | string>> = {
  SIGSTOP: () => SIGNALS,
  "the cgroup freezer": makeCgroupFreezer,
  "SIGSTOP, with a monotonic clock that stops meanwhile": makeClockStopper,
};

const SIGNALS: Freezer = {
  env: {},
  freeze: (pid) => process.kill(pid, "SIGSTOP"),
  thaw: (pid) => process.kill(pid, "SIGCONT"),
};

/** Of version 2, and of version 1. */
const CGROUPS = [
  { root: "/sys/fs/cgroup", file: "cgroup.freeze", states: ["1", "0"] },
  { root: "/sys/fs/cgroup/unified", file: "cgroup.freeze", states: ["1", "0"] },
  { root: "/sys/fs/cgroup/freezer", file: "freezer.state", states: ["FROZEN", "THAWED"] },
] as const;

/** Each process gets a group of its own when it is first frozen. */
function makeCgroupFreezer(t: TestContext): Freezer | string {
  const groupOf = (root: string, pid: number) => join(root, `plant-store-${process.pid}-${pid}`);
  const version = CGROUPS.find(({ root, file }) => {
    const trial = groupOf(root, 0);
    try {
      mkdirSync(trial);
    } catch {
      return false;
    }
    const isUsable = existsSync(join(trial, file));
    rmdirSync(trial);
    return isUsable;
  });
  if (version === undefined) return "needs root and a cgroup freezer";
  const { root, file, states } = version;
  const set = (pid: number, state: string) => {
    const group = groupOf(root, pid);
    if (!existsSync(group)) {
      mkdirSync(group);
      t.after(async () => {
        writeFileSync(join(group, file), states[1]);
        const script = `kill -9 $(cat ${group}/cgroup.procs); rmdir ${group}`;
        await until("its group is empty", () => spawnSync("sh", ["-c", script]).status === 0);
      });
    }
    writeFileSync(join(group, "cgroup.procs"), String(pid));
    writeFileSync(join(group, file), state);
  };
  return { env: {}, freeze: (pid) => set(pid, states[0]), thaw: (pid) => set(pid, states[1]) };
}

/** Subtracts from the monotonic clocks what the file says, in nanoseconds. */
const STOPPABLE_CLOCK = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *left_out;

__attribute__((constructor)) static void begin(void) {
  int fd = open(getenv("TEST_CLOCK"), O_RDONLY);
  void *found = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
  if (found != MAP_FAILED) left_out = found;
}

int clock_gettime(clockid_t id, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, id, time);
  int is_monotonic = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_MONOTONIC_COARSE;
  if (result != 0 || !is_monotonic || left_out == NULL) return result;
  int64_t now = time->tv_sec * 1000000000LL + time->tv_nsec - *left_out;
  time->tv_sec = now / 1000000000LL;
  time->tv_nsec = now % 1000000000LL;
  return 0;
}
`;

/** As in a suspend, the clock that Node's timers use leaves out the time in which the process is frozen. */
function makeClockStopper(t: TestContext): Freezer | string {
  const folder = makeFolder(t);
  const library = join(folder, "clock.so");
  const words = ["-shared", "-fPIC", "-O2", "-o", library, "-x", "c", "-"];
  const { status } = spawnSync("cc", words, { input: STOPPABLE_CLOCK });
  if (status !== 0) return "needs cc, a C compiler";
  const file = join(folder, "left-out");
  writeFileSync(file, Buffer.alloc(8));
  let leftOut = 0n;
  let frozenAt = 0n;
  return {
    env: { LD_PRELOAD: library, TEST_CLOCK: file },
    freeze: (pid) => {
      SIGNALS.freeze(pid);
      frozenAt = process.hrtime.bigint();
    },
    thaw: (pid) => {
      leftOut += process.hrtime.bigint() - frozenAt;
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(leftOut);
      const fd = openSync(file, "r+");
      writeSync(fd, bytes, 0, 8, 0); // in place: the process has mapped the file
      closeSync(fd);
      SIGNALS.thaw(pid);
    },
  };
}
