/** A lock that is removed while it is held, and file systems on which the lock does not work. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canRun, canTrace, traced } from "./machine.ts";
import { assertGoesOn, assertTurnedAway, runOn, startRefused, Trial } from "./trial.ts";

/** Removes the lock, as a cleaner of old files would. */
function removeLocks(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (/^lock\.\d+$/.test(name)) rmSync(join(folder, name));
  }
}

test(
  "a server whose lock is removed stops by itself, also without a request",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    assert.equal(await trial.create(1), 200);
    removeLocks(trial.folder);
    const end = await trial.ended;
    assert.deepEqual([end.status, end.signal], [1, null]);
    assert.equal(end.messages.length, 1, end.messages.join("\n"));
    assert.ok(end.messages[0]?.includes(join(trial.folder, "lock.")), end.messages[0]);
    await assertGoesOn(t, trial.folder, trial.acknowledged);
  },
);

test("a second server that starts after the lock was removed serves alone", TIMEOUT, async (t) => {
  const first = await Trial.start(t);
  assert.equal(await first.create(1), 200);
  removeLocks(first.folder);
  const second = await Trial.start(t, { folder: first.folder });
  assert.equal((await first.ended).status, 1);
  assert.equal(await second.create(2), 200);
  assert.equal((await second.stop()).status, 0);
  await assertGoesOn(t, first.folder, [...first.acknowledged, ...second.acknowledged]);
});

test(
  "a store that has lost its lock writes nothing into the folder when it is closed",
  TIMEOUT,
  async (t) => {
    const folder = makeFolder(t);
    const lost = await PlantStore.open(folder);
    for (let id = 1n; id <= 20n; id++) await lost.create({ id, name: "of the first store" });
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    const next = await PlantStore.open(folder);
    await next.create({ id: 1n, name: "of the next store" });
    const isFailed = lost.failed.then(() => true);
    await until("the first store has noticed", () => Promise.race([isFailed, later(false)]));
    const before = readdirSync(folder);
    await lost.close();
    assert.deepEqual(readdirSync(folder), before);
    await next.close();
    const again = await PlantStore.open(folder);
    assert.equal((await again.get(1n))?.name, "of the next store");
    await again.close();
  },
);

function later<T>(value: T): Promise<T> {
  return new Promise((resolve) => setImmediate(() => resolve(value)));
}

/** Mounts a file system in user space over an empty folder; skips the test if that is impossible. */
function mountFuse(t: TestContext, program: string): string | undefined {
  if (!existsSync("/dev/fuse")) {
    t.skip("needs /dev/fuse");
    return undefined;
  }
  const parent = mkdtempSync(join(tmpdir(), "plant-store-fuse-"));
  const [real, mount] = [join(parent, "real"), join(parent, "mount")];
  for (const folder of [real, mount]) mkdirSync(folder);
  t.after(() => {
    spawnSync("umount", ["-l", mount]);
    rmSync(parent, { recursive: true, force: true });
  });
  if (!canRun(t, program, real, mount)) return undefined;
  const data = join(mount, "data");
  mkdirSync(data, { mode: 0o700 });
  return data;
}

for (const program of ["mergerfs", "bindfs"]) {
  test(
    `on ${program}, where a lock does not reach its holder, a server refuses to start and names the file system`,
    TIMEOUT,
    async (t) => {
      const folder = mountFuse(t, program);
      if (folder === undefined) return;
      for (const start of [1, 2]) {
        const end = await startRefused(t, folder);
        assert.deepEqual([end.status, end.signal], [1, null], `start ${start}`);
        // One warning about the promises that do not hold there, and the refusal.
        assert.equal(end.messages.length, 2, end.messages.join("\n"));
        for (const message of end.messages) assert.match(message, /\bFUSE\b/);
      }
      assertTurnedAway(await runOn(folder, "token", "create", "gardener"));
      assert.deepEqual(readdirSync(folder), [], "nothing is left there");
    },
  );
}

for (const call of ["link", "bind"]) {
  test(
    `without ${call} for a lock, a server refuses to start and names the file system`,
    TIMEOUT,
    async (t) => {
      if (!canTrace(t)) return;
      const folder = makeFolder(t);
      const calls = call === "bind" ? [call] : [call, `${call}at`].map((name) => `?${name}`);
      const all = calls.join(",");
      const { read, ...under } = traced(t, [
        "-e",
        `trace=${all}`,
        "-e",
        `inject=${all}:error=EPERM`,
      ]);
      const end = await startRefused(t, folder, under);
      assert.deepEqual([end.status, end.signal], [1, null]);
      assert.match(read(), /INJECTED/);
      assert.equal(end.messages.length, 1, end.messages.join("\n"));
      assert.match(end.messages[0] ?? "", /file system.*\bEPERM\b/);
      assert.equal(existsSync(logPath(folder)), false);
    },
  );
}
