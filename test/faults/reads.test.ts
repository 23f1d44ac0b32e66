/** Reads of the log that hang while the server runs: which requests suffer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createToken, revokeToken } from "../../src/index.ts";
import { send } from "../support/service.ts";
import { logPath } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { injectInto } from "./machine.ts";
import { get, LONG, NDJSON, startWith } from "./readable-trial.ts";
import { plant } from "./trial.ts";

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
