/** A disk with slow syncs or reads: which requests wait for it, and which do not. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ask } from "../support/admin.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { logLinesOf } from "../support/messages.ts";
import { PROGRAM } from "../support/program.ts";
import { freePort } from "../support/serve.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { CONTAINER, canRun, canTrace, childOf, faulty, traced } from "./machine.ts";
import { assertLog, plant, Trial } from "./trial.ts";

/** Much longer than everything that has to happen meanwhile, even on a slow machine. */
const SYNC_MS = 2000;

test("a slow sync delays the creates that need it, and no other answer", TIMEOUT, async (t) => {
  if (!canTrace(t)) return;
  const folder = makeFolder(t);
  const { read, wrapper } = faulty(t, folder, `write:delay_enter=${SYNC_MS * 1000}`);
  writeLog(folder, `${plant(1)}\n`);
  // A stored plant is read by another thread than the one that waits for the disk.
  const env = { UV_USE_IO_URING: "0" };
  const admin = `127.0.0.1:${await freePort()}`;
  const trial = await Trial.start(t, { folder, wrapper, env, args: ["--admin", admin] });
  const open = await Client.connect(trial.server.port);
  t.after(() => open.destroy());

  const sent = performance.now();
  let isAnswered = false;
  const slow = trial.create(100).then((outcome) => {
    isAnswered = true;
    // When a create is answered its record is in the log, also that of the second one.
    assert.ok(readLog(folder).includes(plant(100)), "answered after it was written");
    return outcome;
  });
  const again = trial.create(100);

  const others: readonly [RequestParts, status: number][] = [
    [{ headers: { Authorization: undefined }, body: plant(2) }, 401],
    [{ headers: { Authorization: "Bearer pst_unknown" }, body: plant(2) }, 401],
    [{ target: "/nowhere", body: plant(2) }, 404],
    [{ method: "PUT" }, 405],
    [{ body: "{" }, 400],
    [{ body: plant(1) }, 200],
    [{ body: plant(1, "another") }, 400],
  ];
  const statuses = await Promise.all(others.map(([parts]) => statusOf(trial, parts)));
  assert.deepEqual(
    statuses,
    others.map(([, status]) => status),
  );
  await open.send(encodeRequest(trial, { target: "/nowhere", body: plant(2) }));
  assert.equal((await open.next()).status, 404, "on a connection that was opened before");
  for (const path of ["/healthz", "/readyz"]) {
    assert.equal((await ask(`http://${admin}`, path)).status, 200, path);
  }
  assert.equal(isAnswered, false, "all of these were answered before it");

  assert.deepEqual(await Promise.all([slow, again]), [200, 200]);
  assert.ok(performance.now() - sent > SYNC_MS / 2, "the sync was really slow");
  assert.equal((await trial.stop()).status, 0);
  assertLog(folder, [plant(1), plant(100)]);
  const writes = read()
    .split("\n")
    .filter((line) => line.includes('\\"id\\":100,'));
  assert.equal(writes.filter((line) => line.includes(" write(")).length, 1, "written once");
});

test("a disk that never takes the lines of the log delays no answer", TIMEOUT, async (t) => {
  if (!canTrace(t)) return;
  const path = join(makeFolder(t), "log.jsonl");
  writeFileSync(path, ""); // so that strace knows the file
  const never = `inject=write:delay_enter=${2 * TIMEOUT.timeout * 1000}`;
  const slow = traced(t, ["-P", path, "-e", "trace=write", "-e", never]);
  const wrapper = ["sh", "-c", 'exec "$@" 2>"$0"', path, ...slow.wrapper];
  const env = { ...slow.env, UV_THREADPOOL_SIZE: "2" }; // the log blocks one of them
  const trial = await Trial.start(t, { wrapper, env });
  t.after(endTracer(trial)); // or else it would wait for the disk
  for (const id of [1, 2, 3]) {
    assert.equal(await statusOf(trial, { target: "/nowhere" }), 404);
    assert.equal(await trial.create(id), 200);
  }
  assert.equal(readFileSync(path, "utf8"), "", "the disk has really taken nothing");
});

/** All reads together take much longer than what has to happen meanwhile; each reads 1 MiB. */
const READ_MS = 400;
const LOG_MIB = 16;

const STARTS: readonly [where: string, wrapper: readonly string[]][] = [
  ["on the machine", []],
  ["as process 1, which ignores signals by default", CONTAINER],
];

for (const [where, container] of STARTS) {
  test(
    `SIGTERM while the log is read ends the start with status 0, ${where}`,
    TIMEOUT,
    async (t) => {
      const [unshare = "true", ...flags] = container;
      if (!canTrace(t) || !canRun(t, unshare, ...flags, "true")) return;
      const folder = makeFolder(t);
      const line = `${plant(1, "x".repeat(1024 * 1024 - 100))}\n`;
      const log = Array.from({ length: LOG_MIB }, (_, at) => line.replace("1", String(at))).join(
        "",
      );
      writeLog(folder, log);
      const delay = `inject=pread64:delay_enter=${READ_MS * 1000}`;
      const slow = traced(t, ["-P", logPath(folder), "-e", "trace=pread64", "-e", delay]);
      const admin = `127.0.0.1:${await freePort()}`;
      const serve = ["serve", "--port=0", "--data", folder, "--admin", admin];
      const words = [...container, ...slow.wrapper, process.execPath, PROGRAM, ...serve];
      const child = spawn(words[0] ?? "", words.slice(1), { env: { ...process.env, ...slow.env } });
      t.after(() => child.kill("SIGKILL"));
      let stdout = "";
      let stderr = "";
      child.stdout.on("data", (text) => {
        stdout += text;
      });
      child.stderr.on("data", (text) => {
        stderr += text;
      });
      const ended = once(child, "close");
      const isStarting = async () => (await ask(`http://${admin}`, "/readyz")).status === 503;
      await until("it starts", () => isStarting().catch(() => false));
      const pid = container.length === 0 ? child.pid : childOf(child);
      process.kill(Number(pid), "SIGTERM");

      assert.deepEqual([await ended, stdout], [[0, null], ""]);
      assert.deepEqual(
        logLinesOf(stderr).map(({ event }) => event),
        ["stopped"],
      );
      const asked = [...slow.read().matchAll(/pread64.*, (\d+), \d+\)/g)].map(([, n]) => Number(n));
      const bytes = asked.reduce((sum, each) => sum + each, 0);
      assert.ok(bytes > 0 && bytes < log.length, `given up after ${bytes} bytes`);
      assert.equal(readLog(folder), log);
      const again = await Trial.start(t, { folder });
      assert.equal(await again.create(LOG_MIB + 1), 200);
    },
  );
}

/** Returns a function that ends the strace of a server, also if the server has ended. */
function endTracer({ pid }: Trial): () => void {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const tracer = Number(/^TracerPid:\s+(\d+)$/m.exec(status)?.[1]);
  return () => process.kill(tracer, "SIGKILL");
}

async function statusOf(trial: Trial, parts: RequestParts): Promise<number> {
  const client = await Client.connect(trial.server.port);
  try {
    await client.send(encodeRequest(trial, parts));
    return (await client.next()).status;
  } finally {
    client.destroy();
  }
}
