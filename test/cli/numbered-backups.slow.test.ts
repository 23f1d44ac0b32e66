/** `backup --into` as a timer runs it: in a process of its own, with a wrong clock, on a full disk. */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { canTrace, mountSmallDisk, traced } from "../faults/machine.ts";
import { readCalls } from "../faults/trace.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { runToEnd } from "../support/run.ts";
import { readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";

const A = '{"id":1,"name":"a"}\n';

function makeData(t: TestContext, log = A): string {
  const folder = makeFolder(t);
  writeLog(folder, log);
  return folder;
}

function namesIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith("plants-"))
    .sort();
}

/** The environment of a process whose clock shows a year. */
function clockAt(year: number) {
  const text = `const at = Date.UTC(${year}, 10, 27);
globalThis.Date = class extends Date {
  constructor(...args) { super(...(args.length > 0 ? args : [at])); }
  static now() { return at; }
};`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(text)}` };
}

test("a timer whose clock jumps back keeps the backup it has just made", TIMEOUT, async (t) => {
  const [data, folder] = [makeData(t), makeFolder(t)];
  const made: string[] = [];
  for (const year of [2026, 2027, 2028, 2025]) {
    const words = ["backup", "--data", data, "--into", folder, "--keep", "3"];
    const { status, stdout, stderr } = await runCli(words, { env: clockAt(year) });
    assert.deepEqual([status, stderr], [0, ""]);
    const name = `plants-00000${made.length + 1}-${year}1127T000000Z`;
    assert.ok(stdout.includes(`"${join(folder, name)}"`), stdout);
    made.push(name);
    assert.equal(stdout.includes(made[0] ?? ""), year === 2026 || year === 2025, "what is removed");
    assert.equal((await runCli(["verify", "--data", join(folder, name)])).status, 0);
  }
  assert.deepEqual(namesIn(folder), made.slice(1));
});

test("a full disk ends a backup with 1, and removes no older one", TIMEOUT, async (t) => {
  const disk = mountSmallDisk(t, "256k");
  if (disk === undefined) return;
  const data = makeData(t, `{"id":1,"name":"${"x".repeat(60_000)}"}\n`);
  const folder = join(disk, "backups");
  const run = () => runCli(["backup", "--data", data, "--into", folder, "--keep", "1"]);
  assert.equal((await run()).status, 0);
  const [first = ""] = namesIn(folder);
  cpSync(join(folder, first), join(folder, "plants-000000-20260101T000000Z"), { recursive: true });
  const before = namesIn(folder);
  assert.equal(before.length, 2);
  assert.throws(() => writeFileSync(join(disk, "filler"), Buffer.alloc(2 ** 20)), /ENOSPC/);
  const { status, stdout, stderr } = await run();
  assert.deepEqual([status, stdout], [1, ""]);
  assert.match(stderr, /\bENOSPC\b/);
  assert.deepEqual(namesIn(folder), before);
  for (const name of before) assert.equal(readLog(join(folder, name)), readLog(data));
});

test(
  "the new backup is on disk before an older one loses its name, and that before it is removed",
  TIMEOUT,
  async (t) => {
    if (!canTrace(t)) return;
    const [data, folder] = [makeData(t), makeFolder(t)];
    const old = join(folder, "plants-000001-20260101T000000Z");
    mkdirSync(old);
    writeFileSync(join(old, "plants.jsonl"), A);
    const { wrapper, env, read } = traced(t, ["-y", "-e", "trace=rename,fsync,unlink,rmdir"]);
    const words = ["backup", "--data", data, "--into", folder, "--keep", "1"];
    const { status, stderr } = await runToEnd([...wrapper, process.execPath, PROGRAM, ...words], {
      env: { ...process.env, ...env },
    });
    assert.equal(status, 0, stderr);
    const calls = readCalls(read()).filter(({ result }) => result === "0");
    const orderOf = calls.flatMap(({ name, args }) => {
      if (name === "fsync") return args.endsWith(`<${folder}>`) ? ["sync"] : [];
      const isOld = args.includes(old);
      if (name === "rename" && args.includes(".unfinished-") && args.includes(folder)) {
        return isOld ? ["old loses its name"] : ["new has its name"];
      }
      return isOld ? ["old is removed"] : [];
    });
    const steps = orderOf.filter((step, at) => step !== orderOf[at - 1]);
    assert.deepEqual(steps.slice(-5), [
      "new has its name",
      "sync",
      "old loses its name",
      "sync",
      "old is removed",
    ]);
  },
);
