/** A lock that is removed while it is held, and file systems on which the lock does not work. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canTrace, traced } from "./machine.ts";
import { assertGoesOn, startRefused, Trial } from "./trial.ts";

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
