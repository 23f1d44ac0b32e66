/** What an operator is shown of the plants in a database. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { PlantService } from "../../src/core/services.ts";
import type { BatchMessage } from "../../src/index.ts";
import { samplesOf, startAdmin } from "../support/admin.ts";
import { makeFolder } from "../support/folders.ts";
import { openStore } from "../support/stores.ts";
import { collectMessages, TIMEOUT, until } from "../support/watch.ts";
import { NEEDS_POSTGRES, SharedCluster } from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

const NAMES = ["Fern", "Färn", "蕨", 'a "quoted" one', "NUL \0", "half \uD800", ""];

/** Creates plants, repeats some and tries other content; returns the sums of the batches. */
async function sumBatches(t: TestContext, plants: PlantService) {
  const batches = collectMessages<BatchMessage>(t, "plant-store:batch");
  const before = batches.length;
  const createAll = (extra: object) =>
    Promise.allSettled(
      NAMES.map((name, at) => plants.create({ id: BigInt(at), name, tag: "tag ü", ...extra })),
    );
  await createAll({});
  await createAll({});
  await createAll({ tag: "other" });
  const more = [0n, 100n].map((id) => plants.create({ id, name: NAMES[0] ?? "", tag: "tag ü" }));
  assert.deepEqual(await Promise.all(more), ["replayed", "created"]);
  const own = batches.slice(before);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return {
    records: sum(own.map(({ records }) => records)),
    bytes: sum(own.map(({ bytes }) => bytes)),
  };
}

test(
  "batches count the plants that were created, and the bytes of their lines",
  OPTIONS,
  async (t) => {
    const { plants } = await cluster.openStore(t);
    const inLog = await sumBatches(t, await openStore(t, makeFolder(t)));
    assert.equal(inLog.records, NAMES.length + 1);
    assert.deepEqual(await sumBatches(t, plants), inLog);
  },
);

test("the number of plants is unknown until the database has an estimate", OPTIONS, async (t) => {
  const { cluster: server, database, plants } = await cluster.openStore(t);
  const { status, get } = await startAdmin(t);
  await plants.create({ id: 1n, name: "Fern" });
  const show = async () => {
    status.known = plants.status();
    const { plants: shown } = JSON.parse((await get("/status.json")).text);
    return [shown, samplesOf((await get("/metrics")).text).get("plant_store_plants")];
  };
  assert.deepEqual(await show(), [undefined, undefined]);
  await server.sql("ANALYZE plants", database);
  await until("a look has it", () => plants.status().plants !== undefined);
  assert.deepEqual(await show(), [1, 1]);
  await server.sql("DELETE FROM plants", database);
  await server.sql("VACUUM ANALYZE plants", database);
  await until("a look has it", () => plants.status().plants === 0);
  assert.deepEqual(await show(), [0, 0]);
});
