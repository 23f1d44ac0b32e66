/**
 * A primary and one of its two standbys are cut off from everybody else, and the other standby is
 * promoted, while nobody stops the old primary. What docs/database-setup.md says of this, of fencing, and of the
 * settings that need none.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { until } from "../support/watch.ts";
import { Cluster } from "./cluster.ts";
import { collect } from "./conformance.ts";
import { NEEDS_POSTGRES, openPlants } from "./stores.ts";

const IDS = Array.from({ length: 100 }, (_, at) => BigInt(at));
const DEADLINE_MS = 2000;

/** @returns how many creates the old primary confirmed, and how many of them the new one has otherwise, or not. */
async function split(t: TestContext, setting: string, prepare = async (_: Cluster) => {}) {
  const primary = await Cluster.start(t);
  await primary.createStore("garden");
  const [promoted, other] = [
    await Cluster.follow(t, primary, "s1"),
    await Cluster.follow(t, primary, "s2"),
  ];
  await primary.sql("GRANT pg_read_all_stats TO plant_store");
  await primary.setStandbys(setting);
  await until("commits wait for the standbys", async () => {
    const states = "SELECT state FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')";
    return (await primary.sql(states)).length === (setting.startsWith("FIRST") ? 1 : 2);
  });
  const url = (server: Cluster) => server.url("garden", { user: "plant_store" });
  const open = (server: Cluster, requireSync: boolean) =>
    openPlants(t, { url: url(server), requireSync, databaseDeadlineMs: DEADLINE_MS });
  const cutOff = await open(primary, true);
  await prepare(other);
  await promoted.promote(); // it leaves its primary
  const served = await open(promoted, false);
  const half = IDS.slice(IDS.length / 2);
  await Promise.all(half.map((id) => served.create({ id, name: "of the new primary" })));
  const created = await Promise.allSettled(
    IDS.map((id) => cutOff.create({ id, name: "of the old primary" })),
  );
  const stored = new Map((await collect(served.list())).map(({ id, name }) => [id, name]));
  const confirmed = IDS.filter((_, at) => created[at]?.status === "fulfilled");
  return {
    confirmed: confirmed.length,
    lost: confirmed.filter((id) => !stored.has(id)).length,
    withTwoContents: confirmed.filter((id) => stored.has(id)).length,
  };
}

for (const setting of ["ANY 1 (s1, s2)", "FIRST 1 (s1, s2)"]) {
  test(
    `with ${setting} a cut-off primary still confirms plants, which are lost`,
    NEEDS_POSTGRES,
    async (t) => {
      const found = await split(t, setting);
      assert.deepEqual(found, { confirmed: 100, lost: 50, withTwoContents: 50 });
    },
  );
}

test("with ANY 2 (s1, s2) a cut-off primary confirms nothing", NEEDS_POSTGRES, async (t) => {
  const { confirmed } = await split(t, "ANY 2 (s1, s2)");
  assert.equal(confirmed, 0);
});

test(
  "with ANY 1 (s1, s2) it confirms nothing if the other standby stopped following before the promotion",
  NEEDS_POSTGRES,
  async (t) => {
    const { confirmed } = await split(t, "ANY 1 (s1, s2)", (other) => other.stop());
    assert.equal(confirmed, 0);
  },
);
