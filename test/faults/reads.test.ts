/** Reads of the log that fail or hang while the server runs: which requests suffer, and that it goes on. */
import assert from "node:assert/strict";
import { closeSync, openSync, truncateSync, writeSync } from "node:fs";
import { test } from "node:test";
import { createToken, revokeToken } from "../../src/index.ts";
import { ask } from "../support/admin.ts";
import { freePort } from "../support/serve.ts";
import { send } from "../support/service.ts";
import { logPath } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { injectInto } from "./machine.ts";
import { get, LONG, NDJSON, startWith } from "./readable-trial.ts";
import { plant, type Trial } from "./trial.ts";

function warningsOf(trial: Trial): readonly string[] {
  return trial.messages.filter((line) => line.includes(logPath(trial.folder)));
}

test(
  "plants that the disk cannot read are answered 50307, and creates of them 50302, until it can",
  TIMEOUT,
  async (t) => {
    const admin = `127.0.0.1:${await freePort()}`;
    const lines = [plant(1), plant(2, LONG), plant(3)];
    const trial = await startWith(t, lines, { args: ["--admin", admin] });
    const requests = () =>
      Promise.all([
        ...[1, 2, 3].map((id) => get(trial, `/plants/${id}`)),
        get(trial, "/plants"),
        get(trial, "/plants?after=1"),
        get(trial, "/plants", NDJSON),
        get(trial, "/plants?limit=1", NDJSON),
        trial.create(1),
        trial.create(1, "another"),
        trial.create(2, "another"),
      ]);
    const fault = await injectInto(t, trial.pid, logPath(trial.folder), "pread64:error=EIO");
    if (fault === undefined) return;
    assert.deepEqual(await requests(), [...Array(7).fill(50307), ...Array(3).fill(50302)]);
    assert.equal(await trial.create(4), 200);
    assert.deepEqual([await trial.create(4), await get(trial, "/plants/4")], [200, 200]);
    assert.equal((await ask(`http://${admin}`, "/readyz")).status, 200, "the disk takes plants");
    await fault.end();
    assert.ok(fault.read().includes("(INJECTED)"));
    assert.deepEqual(await requests(), [...Array(8).fill(200), 40006, 40006]);
    assert.equal(await trial.create(5), 200);
    const warnings = warningsOf(trial);
    assert.ok(warnings.length > 0 && warnings.every((line) => line.includes("EIO")), `${warnings}`);
    assert.equal((await trial.stop()).status, 0);
  },
);

test(
  "while the disk answers no read, plants are created, and tokens are created and revoked",
  TIMEOUT,
  async (t) => {
    const lines = Array.from({ length: 100 }, (_, id) => plant(id, id < 90 ? undefined : LONG));
    const trial = await startWith(t, lines);
    const minutes = 10 * 60 * 1e6;
    const never = `pread64:delay_enter=${minutes}`;
    const fault = await injectInto(t, trial.pid, logPath(trial.folder), never);
    if (fault === undefined) return;
    let answered = 0;
    const count = <T>(answer: T) => {
      answered++;
      return answer;
    };
    const reads = Promise.all([
      ...lines.map((_, id) => get(trial, `/plants/${id}`).then(count)),
      ...Array.from({ length: 10 }, () => get(trial, "/plants").then(count)),
      ...Array.from({ length: 10 }, () => get(trial, "/plants", NDJSON).then(count)),
      ...Array.from({ length: 10 }, (_, id) => trial.create(id).then(count)),
    ]);
    await until("the disk is asked", () => fault.read().includes("pread64("));
    for (let id = 1000; id < 1020; id++) assert.equal(await trial.create(id), 200);
    const token = await createToken(trial.folder, { name: "new" });
    const createAsNew = () =>
      send(`${trial.server.url}/plants`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: plant(2000),
      });
    const isStatus = (status: number) => async () => (await createAsNew()).status === status;
    await until("the new token is accepted", isStatus(200));
    await revokeToken(trial.folder, "new");
    await until("the revoked token is refused", isStatus(401));
    assert.equal(answered, 0);
    await fault.end();
    assert.deepEqual(new Set(await reads), new Set([200]));
    assert.equal((await trial.stop()).status, 0);
  },
);

/** What another program may do to a record on disk, as long as the log is as long as it was. */
const DAMAGES: Readonly<Record<string, readonly [from: string, to: string]>> = {
  "is no record any more": ["{", "#"],
  "has another id": ["7", "8"],
};

for (const [what, [from, to]] of Object.entries(DAMAGES)) {
  test(`a plant whose record ${what} stops the server: 50303, status 1`, TIMEOUT, async (t) => {
    const trial = await startWith(t, [plant(7), plant(2)]);
    const fd = openSync(logPath(trial.folder), "r+");
    writeSync(fd, to, plant(7).indexOf(from));
    closeSync(fd);
    assert.equal(await get(trial, "/plants/7"), 50303);
    const { status, messages } = await trial.ended;
    assert.deepEqual([status, messages.length], [1, 1], messages.join("\n"));
    assert.ok(messages[0]?.includes(logPath(trial.folder)), messages[0]);
  });
}

test("a read of a log that was cut stops the server: 50303, status 1", TIMEOUT, async (t) => {
  const trial = await startWith(t, [plant(1), plant(2)]);
  truncateSync(logPath(trial.folder), plant(1).length + 1);
  assert.equal(await get(trial, "/plants/2"), 50303);
  assert.equal((await trial.ended).status, 1);
});
