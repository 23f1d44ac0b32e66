/** A control group with a limit of memory, as a container has one: the kernel ends a program that takes more. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import type { TestContext } from "node:test";
import { until } from "../support/watch.ts";

const [ROOT, LIMIT] = existsSync("/sys/fs/cgroup/memory")
  ? ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"]
  : ["/sys/fs/cgroup", "memory.max"];
let made = 0;

/** The words that run a program within so much memory; `undefined` if this machine cannot (it takes root). */
export function makeContainer(t: TestContext, mib: number): string[] | undefined {
  const folder = `${ROOT}/plant-store-${process.pid}-${++made}`;
  try {
    mkdirSync(folder);
    writeFileSync(`${folder}/${LIMIT}`, String(mib * 2 ** 20));
  } catch {
    return undefined;
  }
  const list = `${folder}/cgroup.procs`;
  const pids = () => readFileSync(list, "utf8").split("\n").filter(Boolean).map(Number);
  t.after(async () => {
    for (const pid of pids()) process.kill(pid, "SIGKILL");
    await until("its programs have ended", () => pids().length === 0);
    rmdirSync(folder);
  });
  return ["sh", "-c", `echo $$ > ${list} && exec "$@"`, "sh"];
}
