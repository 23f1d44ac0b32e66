/**
 * Faults of a primary and its standby. With `FAILOVER_ROUNDS=20` each fault of `FAULTS` happens so
 * often, with 48 clients and bars of time, and then without one safeguard: if no plant is lost, the trial proves nothing.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PlantServer } from "../../src/index.ts";
import { HANG_MS, until } from "../support/watch.ts";
import { FAULTS, tryFault } from "./faults.ts";
import { Load, overHttp } from "./load.ts";
import { listPlants, OPTIONS, openStore, SharedCluster, startPair } from "./stores.ts";

const cluster = new SharedCluster();
const ROUNDS = Number(process.env.FAILOVER_ROUNDS ?? 0);
/** So long that a fault is over before the deadline, also on a busy machine. */
const PATIENT = { databaseDeadlineMs: HANG_MS };
/** Of one server: 4 for creates, and 3 for probes, reads, and tokens and locked rows. */
const SESSIONS_MAX = 4 + 3;
/** How soon after a promotion a create has to succeed. */
const FIRST_MS_MAX = 500;
/** A control that always runs. */
const CONTROL = "waits for the standby are cancelled, and the primary is killed";

for (const [name, fault] of Object.entries(FAULTS)) {
  const { isUnnoticed = false, without } = fault;
  const options = ROUNDS > 0 ? {} : { clients: 24, ...PATIENT };
  for (let round = 0; round < Math.max(1, ROUNDS); round++) {
    test(`nothing is lost when ${name}`, OPTIONS, async (t) => {
      const cost = await tryFault(t, fault, options);
      const { lost, changed, wrong, failed, codes, firstMs, longestMs } = cost;
      t.diagnostic(JSON.stringify(cost));
      assert.deepEqual({ lost, changed, wrong }, { lost: 0, changed: 0, wrong: 0 });
      assert.ok(codes.every((code) => code === "write_failed"));
      if (isUnnoticed) assert.equal(failed, 0, "no client saw an error");
      if (ROUNDS > 0) assert.ok(firstMs <= FIRST_MS_MAX && longestMs <= 10_200);
    });
  }
  if (without === undefined || (ROUNDS === 0 && name !== CONTROL)) continue;
  test(`plants are lost without ${without.what} when ${name}`, OPTIONS, async (t) => {
    const { lost } = await tryFault(t, fault, { sabotage: without });
    t.diagnostic(`${lost} lost`);
    assert.ok(lost > 0);
  });
}

test("clients of two servers see no error while the primary is lost", OPTIONS, async (t) => {
  const { primary, standby, url } = await startPair(t);
  const { tokenTable } = await openStore(t, { url: primary.url("garden") });
  const token = await tokenTable.create({ name: "app" });
  const start = async () => {
    const store = await openStore(t, { url, ...PATIENT });
    const server = await PlantServer.start({ port: 0, ...store });
    t.after(() => server.close(0));
    return server.url;
  };
  const [one, other] = [await start(), await start()];
  const load = new Load();
  load.start(16, overHttp(one, token), overHttp(other, token));
  await load.more(100);
  primary.freeze();
  await sleep(2500); // longer than a verdict on a token is valid
  await standby.promote();
  await load.more(100);
  const { failed, codes } = await load.stop(async () => []);
  assert.equal(failed, 0, String(codes));
});

test("without the standby clients get a response, and no sessions pile up", OPTIONS, async (t) => {
  const { primary, standby, url } = await startPair(t);
  const { plants } = await openStore(t, { url, databaseDeadlineMs: 4000 });
  const load = new Load();
  load.start(50, plants);
  await load.more(50);
  await plants.getLine(1n);
  await standby.stop("SIGKILL");
  await sleep(14_000); // the probe is late, too
  const areFew = async () => (await primary.countSessions()) <= SESSIONS_MAX;
  await until("sessions do not pile up", areFew); // one more may ask what the others do
  await standby.start();
  await load.more(50);
  const { failed, lost, changed, wrong } = await load.stop(() => listPlants(plants));
  assert.ok(failed >= 50, "every client had a response");
  assert.deepEqual({ lost, changed, wrong }, { lost: 0, changed: 0, wrong: 0 });
});

test("plants leave the queue when no client waits for them any more", OPTIONS, async (t) => {
  const options = { databaseDeadlineMs: 1000 };
  const { cluster: server, plants, state } = await cluster.openStore(t, options);
  t.after(() => server.start());
  await server.stop("SIGQUIT");
  await until("the server has noticed", () => state().host === undefined);
  const name = "x".repeat(1e6);
  /** Creates more than the queue holds; returns how many it has taken. */
  const fill = async () => {
    const creates = Array.from({ length: 100 }, (_, id) => plants.create({ id: BigInt(id), name }));
    const codes = await Promise.all(creates.map((create) => create.catch(({ code }) => code)));
    assert.deepEqual(new Set(codes), new Set(["write_failed", "overloaded"]));
    return codes.indexOf("overloaded");
  };
  const count = await fill();
  assert.equal(plants.status().queueBytes, 0);
  assert.equal(await fill(), count, "as many find room again");
});
