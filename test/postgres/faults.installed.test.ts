import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { PlantServer } from "../../src/index.ts";
import { HANG_MS, until } from "../support/watch.ts";
import { FAULTS, tryFault } from "./faults.ts";
import { startFirewall } from "./firewall.ts";
import { Load } from "./load.ts";
import { listPlants, OPTIONS, openStore, SharedCluster, startPair, succeeds } from "./stores.ts";

const cluster = new SharedCluster();
/** The condition of sessions whose create waits for the standby. */
const CREATES_THAT_WAIT = "wait_event = 'SyncRep' AND query LIKE '%plants AS p%'";
/** So long that a fault is over before the deadline, also on a busy machine. */
const PATIENT = { databaseDeadlineMs: HANG_MS };
/** Of one server: 4 for creates, and 3 for probes, reads, and tokens and locked rows. */
const SESSIONS_MAX = 4 + 3;

for (const [name, fault] of Object.entries(FAULTS)) {
  test(`nothing is lost when ${name}`, OPTIONS, async (t) => {
    const { lost, changed, wrong, failed } = await tryFault(t, fault, { clients: 24, ...PATIENT });
    assert.deepEqual({ lost, changed, wrong }, { lost: 0, changed: 0, wrong: 0 });
    if (fault.isUnnoticed === true) assert.equal(failed, 0, "no client saw an error");
  });
}

test("if the notice of a cancelled wait is ignored, plants are lost", OPTIONS, async (t) => {
  const name = "waits for the standby are cancelled, and the primary is killed";
  const fault = FAULTS[name] ?? assert.fail();
  const { lost } = await tryFault(t, fault, { clients: 24, sabotage: fault.without ?? {} });
  assert.ok(lost > 0);
});

test("clients of two servers see no error while the primary is lost", OPTIONS, async (t) => {
  const { primary, standby, url } = await startPair(t);
  const { tokenTable } = await openStore(t, { url: primary.url("garden") });
  const token = await tokenTable.create({ name: "app", scopes: ["write", "read"] });
  const start = async () => {
    const { plants, tokens } = await openStore(t, { url, ...PATIENT });
    const server = await PlantServer.start({ port: 0, plants, tokens });
    t.after(() => server.close(0));
    return server.url;
  };
  const urls = [await start(), await start()] as const;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const seen = new Set<string>();
  let count = 0;
  let isStopped = false;
  const client = async () => {
    while (!isStopped) {
      const id = ++count;
      const [one, other] = id % 2 === 0 ? urls : [urls[1], urls[0]];
      const plant = JSON.stringify({ id, name: `plant ${id}` });
      const created = await fetch(`${one}/plants`, { method: "POST", headers, body: plant });
      const read = await fetch(`${other}/plants/${id}`, { headers });
      seen.add(`${created.status} ${read.status} ${(await read.text()) === plant}`);
    }
  };
  const clients = Array.from({ length: 16 }, client);
  const more = async () => {
    const wanted = count + 100;
    await until("100 more plants are created", () => count >= wanted);
  };
  await more();
  primary.freeze();
  await sleep(2500); // longer than a verdict on a token is valid
  await standby.promote();
  await more();
  isStopped = true;
  await Promise.all(clients);
  assert.deepEqual([...seen], ["200 200 true"]);
});

test("without the standby clients get a response, and no sessions pile up", OPTIONS, async (t) => {
  const { primary, standby, url } = await startPair(t);
  const { plants } = await openStore(t, { url, databaseDeadlineMs: 4000 });
  await plants.create({ id: 0n, name: "Fern" });
  await plants.getLine(0n);
  await standby.stop("kill");
  const load = new Load();
  load.start(50, plants);
  let id = 0n;
  await until("every connection for creates waits", async () => {
    for (let more = 0; more < 8; more++) {
      plants.create({ id: --id, name: "Fern" }).catch(() => {}); // at its deadline
    }
    return (await primary.countSessions(CREATES_THAT_WAIT)) === 4;
  });
  await sleep(10_000); // the probe is late, too
  // While a probe hangs hosts are asked, so one count alone may be higher.
  const counts: number[] = [];
  for (let times = 0; times < 5; times++) {
    await sleep(500);
    counts.push(await primary.countSessions());
  }
  assert.ok(Math.min(...counts) <= SESSIONS_MAX, `sessions: ${counts}`);
  await standby.start();
  await load.more(50);
  const { failed, lost, changed, wrong } = await load.stop(() => listPlants(plants));
  assert.ok(failed >= 50, "every client had a response");
  assert.deepEqual({ lost, changed, wrong }, { lost: 0, changed: 0, wrong: 0 });
});

test("connections that a firewall has forgotten are replaced", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const { url, forget } = await startFirewall(t, server.url(database, "plant_store"));
  const { plants, tokens } = await openStore(t, { url, databaseDeadlineMs: 2000 });
  let id = 0n;
  const createMany = () =>
    Promise.all(Array.from({ length: 2000 }, () => plants.create({ id: ++id, name: "Fern" })));
  await plants.getLine(1n);
  const ofStore = `datname = '${database}'`;
  // One for probes, one for reads, and two or more for creates.
  await until("several connections have created", async () => {
    await createMany();
    return (await server.countSessions(ofStore)) >= 4;
  });
  forget();
  await until("creates succeed again", () => succeeds(createMany()));
  await until("reads succeed again", () => succeeds(plants.getLine(1n)));
  await until("verdicts are given again", () => tokens.isReadable);
  t.after(() => server.setStandbys());
  await server.setStandbys("missing");
  await until("a probe waits for a standby", async () => {
    const waiting = await server.countSessions(`wait_event = 'SyncRep' AND ${ofStore}`);
    return waiting > 0 && !tokens.isReadable;
  });
  forget();
  await server.setStandbys();
  await until("verdicts are given again", () => tokens.isReadable);
});

test("plants leave the queue when no client waits for them any more", OPTIONS, async (t) => {
  const { cluster: server, url } = await cluster.createStore();
  t.after(() => server.start());
  const options = { databaseDeadlineMs: 1000, queueBytesMax: 64 * 1024 };
  const { plants, state } = await openStore(t, { url, ...options });
  await server.stop("immediate");
  await until("the server has noticed", () => state().host === undefined);
  let id = 0n;
  /** Creates until one is refused because the queue is full. */
  const fill = async () => {
    const creates: Promise<string>[] = [];
    let isFull = false;
    while (!isFull) {
      const create = plants.create({ id: ++id, name: "x".repeat(1000) });
      creates.push(create.catch(({ code }) => code));
      isFull = (await Promise.race([creates.at(-1), turn()])) === "overloaded";
    }
    const codes = await Promise.all(creates);
    assert.deepEqual(new Set(codes.slice(0, -1)), new Set(["write_failed"]));
    return codes.length;
  };
  const count = await fill();
  assert.equal(plants.status().queueBytes, 0);
  assert.equal(await fill(), count, "as many find room again");
});
