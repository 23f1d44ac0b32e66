import { test } from "node:test";
import { TIMEOUT } from "../support/watch.ts";
import { PROMISES, Trial } from "./conformance.ts";
import { loadDriver, NEEDS_POSTGRES, SharedCluster } from "./stores.ts";

const cluster = new SharedCluster();

for (const [promise, check] of Object.entries(PROMISES)) {
  test(promise, { ...NEEDS_POSTGRES, ...TIMEOUT }, async (t) => {
    const { cluster: server, database } = await cluster.createStore();
    const trial = new Trial(await loadDriver(), server.url(database));
    t.after(() => trial.close());
    await check(trial);
  });
}
