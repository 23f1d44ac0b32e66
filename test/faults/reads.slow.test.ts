/** Reads of the log that fail in the middle of a stream, or for lack of memory. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canRun, injectInto, limit, statusField } from "./machine.ts";
import { get, LONG, NDJSON, startWith } from "./readable-trial.ts";
import { plant, type Trial } from "./trial.ts";

test(
  "a stream that the disk cannot continue is cut, and the server continues",
  TIMEOUT,
  async (t) => {
    const count = 300; // more than the sockets hold
    const trial = await startWith(
      t,
      Array.from({ length: count }, (_, id) => plant(id, LONG)),
    );
    const headers = { ...NDJSON, Authorization: `Bearer ${trial.token}` };
    const stream = () => fetch(`${trial.server.url}/plants`, { headers });
    const cut = await stream();
    assert.equal(cut.status, 200);
    const fault = await injectInto(t, trial.pid, logPath(trial.folder), "pread64:error=EIO");
    if (fault === undefined) return;
    await assert.rejects(cut.text(), TypeError);
    await fault.end();
    assert.equal((await (await stream()).text()).split("\n").length, count + 1);
    const { status, messages } = await trial.stop();
    assert.deepEqual([status, messages.length], [0, 1], messages.join("\n"));
  },
);

test("repeats of many older plants are answered in a limited address space", TIMEOUT, async (t) => {
  const lines = Array.from({ length: 20_000 }, (_, id) => plant(id));
  const trial = await startWith(t, lines);
  if (!canRun(t, "prlimit", "--version")) return;
  limit(trial.pid, `--as=${addressSpace(trial) + 100 * 2 ** 20}:`);
  const ids = Array.from({ length: 200 }, (_, at) => 100 * at);
  assert.deepEqual(new Set(await trial.createAll(ids)), new Set([200]));
  assert.equal(await trial.create(20_000), 200);
  assert.equal((await trial.stop()).status, 0);
});

/** In bytes. */
function addressSpace({ pid }: Trial): number {
  return Number.parseInt(statusField(pid, "VmSize"), 10) * 1024;
}

test(
  "a long plant for which there is no memory is answered 50307, and given once there is some",
  TIMEOUT,
  async (t) => {
    const file = join(makeFolder(t), "memory");
    const probe = new URL("../support/memory-probe.mjs", import.meta.url);
    const env = {
      NODE_OPTIONS: `--import ${probe}`,
      MEMORY_FILE: file,
      MALLOC_MMAP_THRESHOLD_: `${2 ** 20}`, // so that freed buffers leave the address space
    };
    const trial = await startWith(t, [plant(1), plant(2, "x".repeat(60 * 2 ** 20))], { env });
    if (!canRun(t, "prlimit", "--version")) return;
    const collectGarbage = async () => {
      rmSync(file, { force: true });
      process.kill(trial.pid, "SIGUSR2");
      await until("garbage was collected", () => existsSync(file) && readFileSync(file).length > 0);
    };
    // Buffers are freed in a thread, at any time after a collection: then the limit is lowered again.
    await until("there is no memory for the plant", async () => {
      await collectGarbage();
      limit(trial.pid, `--as=${addressSpace(trial) + 90 * 2 ** 20}:`); // the plant takes 92 MiB
      const answer = await get(trial, "/plants/2");
      assert.ok(answer === 50307 || answer === 200, `${answer}`);
      return answer === 50307;
    });
    assert.equal(await trial.create(2, "another"), 50302);
    assert.equal(await get(trial, "/plants?after=1"), 50301);
    assert.deepEqual([await get(trial, "/plants/1"), await trial.create(3)], [200, 200]);
    limit(trial.pid, "--as=unlimited:");
    assert.equal(await get(trial, "/plants/2"), 200);
    assert.equal(await trial.create(2, "another"), 40006);
    assert.equal((await trial.stop()).status, 0);
  },
);
