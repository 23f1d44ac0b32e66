import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { readLog } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const LINE = '{"id":7,"name":"Fern","tag":"indoor"}';

/** A system call in a trace. If lines of other calls interrupt it, its parts are joined. */
interface Call {
  readonly name: string;
  readonly args: string;
  readonly result: string;
  /** The lines on which it begins and ends. */
  readonly begin: number;
  readonly end: number;
}

/** Parses `PID name(args) = result`, also if it is split into `<unfinished ...>` and `resumed>`. */
function parseTrace(trace: string): Call[] {
  const calls: Call[] = [];
  const open = new Map<string, { name: string; args: string; begin: number }>();
  for (const [at, line] of trace.split("\n").entries()) {
    const whole = /^(\d+) +(\w+)\((.*)\) += (.*)$/.exec(line);
    const begun = /^(\d+) +(\w+)\((.*?) *<unfinished \.\.\.>$/.exec(line);
    const resumed = /^(\d+) +<\.\.\. \w+ resumed>(.*)\) += (.*)$/.exec(line);
    if (begun !== null) {
      const [, pid = "", name = "", args = ""] = begun;
      open.set(pid, { name, args, begin: at });
    } else if (resumed !== null) {
      const [, pid = "", rest = "", result = ""] = resumed;
      const start = open.get(pid);
      assert.ok(start !== undefined, line);
      open.delete(pid);
      calls.push({ ...start, args: start.args + rest, result, end: at });
    } else if (whole !== null) {
      const [, , name = "", args = "", result = ""] = whole;
      calls.push({ name, args, result, begin: at, end: at });
    }
  }
  return calls;
}

test("a create is answered only after its record was written through to the disk", async (t) => {
  if (spawnSync("strace", ["-V"]).error !== undefined) {
    t.skip("needs strace");
    return;
  }
  const folder = makeFolder(t);
  const tracePath = join(makeFolder(t), "trace");
  const token = await createToken(folder, { name: "traced" });
  const trace = "trace=openat,close,pwrite64,write,writev,sendto,sendmsg,exit_group";
  const server = await startServer(t, ["--data", folder], {
    wrapper: ["strace", "-f", "-qq", "-s", "200", "-o", tracePath, "-e", trace],
    // One thread writes, and not through io_uring, which strace cannot show.
    env: { UV_THREADPOOL_SIZE: "1", UV_USE_IO_URING: "0" },
  });
  // strace passes no signal on, so the traced process gets it directly.
  const { pid } = server.process;
  const traced = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
  t.after(() => {
    try {
      process.kill(traced, "SIGKILL");
    } catch {} // it has already ended
  });
  assert.equal((await postPlant(server.url, token, LINE)).status, 200);
  process.kill(traced, "SIGTERM");
  await until("the traced server has ended", () => server.process.exitCode !== null);
  assert.equal(server.process.exitCode, 0);
  assert.equal(readLog(folder), `${LINE}\n`);

  const calls = parseTrace(readFileSync(tracePath, "utf8"));
  const opened = calls.filter(({ name, args }) => {
    return name === "openat" && args.includes(`"${join(folder, "plants.jsonl")}"`);
  });
  assert.equal(opened.length, 2, "one descriptor for reads, and one for appends");
  const log = opened.find(({ args }) => args.includes("O_APPEND"));
  assert.match(log?.args ?? "", /\bO_WRONLY\b.*\bO_DSYNC\b|\bO_DSYNC\b.*\bO_WRONLY\b/);

  const shown = JSON.stringify(`${LINE}\n`);
  const writes = calls.filter(({ name, args }) => /write/.test(name) && args.includes(shown));
  assert.equal(writes.length, 1, "the record is written once");
  const [write] = writes;
  assert.equal(write?.name, "write");
  assert.equal(
    write?.args.split(",")[0],
    log?.result,
    "on the descriptor with O_APPEND and O_DSYNC",
  );
  assert.equal(write?.result, String(LINE.length + 1), "the whole record");
  // If it had been closed, its number could belong to another file now.
  const closed = calls.filter(({ name, args, begin }) => {
    const isBetween = begin > (log?.end ?? Infinity) && begin < (write?.begin ?? 0);
    return isBetween && name === "close" && args === log?.result;
  });
  assert.deepEqual(closed, []);

  // The other writes are those of the trial connection in memory.
  const ours = JSON.stringify("HTTP/1.1 200 OK\r\nContent-Type: application/json").slice(1, -1);
  const answers = calls.filter(({ args }) => args.includes(ours));
  assert.equal(answers.length, 1);
  assert.ok(
    (write?.end ?? Infinity) < (answers[0]?.begin ?? -1),
    "written before the answer began",
  );
});
