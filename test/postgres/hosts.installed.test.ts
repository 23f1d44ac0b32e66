/** Which of several hosts a store uses, and which standbys prove its commits. */
import assert from "node:assert/strict";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { TIMEOUT, until } from "../support/watch.ts";
import { Cluster } from "./cluster.ts";
import { NEEDS_POSTGRES, openPlants, SharedCluster, startPair } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();

function urlOf(...ports: readonly number[]): string {
  return `postgresql://plant_store@${ports.map((port) => `127.0.0.1:${port}`).join()}/garden`;
}

/** Opens stores until one is refused: on a busy machine one of two hosts may answer too late to be compared. */
async function assertRefused(t: TestContext, ...hosts: readonly Cluster[]): Promise<void> {
  const url = urlOf(...hosts.map(({ port }) => port));
  let refusal: { code?: string; message?: string } = {};
  await until("the hosts are refused", async () => {
    refusal = await openPlants(t, { url }).catch((error) => error);
    return refusal instanceof Error;
  });
  assert.equal(refusal.code, "corruption");
  for (const { port } of hosts) assert.ok(refusal.message?.includes(`127.0.0.1:${port}`));
}

test("two hosts of one timeline that accept writes are refused by name", OPTIONS, async (t) => {
  const original = await Cluster.start(t);
  await original.createStore("garden");
  await assertRefused(t, original, await Cluster.clone(t, original));
});

test("a running store refuses a copy of its host that appears beside it", OPTIONS, async (t) => {
  const original = await Cluster.start(t);
  await original.createStore("garden");
  const clone = await Cluster.clone(t, original);
  await clone.stop();
  const plants = await openPlants(t, { url: urlOf(original.port, clone.port) });
  await plants.create({ id: 1n, name: "Fern" });
  await clone.start();
  await until("the store refuses", () => plants.database.refusal !== undefined);
  await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "store_failed" });
  await clone.stop();
  await until("the store goes on", () => plants.database.refusal === undefined);
  await plants.create({ id: 2n, name: "Fern" });
});

test("two names of one server are one host", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const url = `postgresql://plant_store@127.0.0.1:${server.port},127.0.0.2:${server.port}/${database}`;
  await server.sql("ALTER SYSTEM SET listen_addresses = '127.0.0.1,127.0.0.2'");
  await server.stop();
  await server.start();
  const plants = await openPlants(t, { url });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
});

test("a host that does not answer is not waited for", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const sockets = new Set<net.Socket>();
  const silent = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  t.after(() => silent.close());
  const { port } = silent.address() as net.AddressInfo;
  const hosts = `127.0.0.1:${port},127.0.0.1:${server.port}`;
  await openPlants(t, { url: `postgresql://plant_store@${hosts}/${database}` });
  assert.equal(sockets.size, 1, "it is still being asked");
});

test("a start does not use a primary that was replaced by an unfit host", OPTIONS, async (t) => {
  const { primary, standby } = await startPair(t, { standbys: "" });
  await standby.promote();
  await standby.sql("ALTER TABLE plant_tokens RENAME TO gone", "garden");
  for (const ports of [
    [primary.port, standby.port],
    [standby.port, primary.port],
  ]) {
    await assert.rejects(openPlants(t, { url: urlOf(...ports), databaseDeadlineMs: 500 }), {
      code: "corruption",
    });
  }
});

test("a server that was frozen looks before it stores a plant (fake clock)", OPTIONS, async (t) => {
  const { cluster: server, plants } = await cluster.openStore(t, { databaseDeadlineMs: 1000 });
  await plants.create({ id: 1n, name: "Fern" });
  await server.sql("ALTER SYSTEM SET fsync = off");
  t.after(async () => {
    await server.sql("ALTER SYSTEM RESET fsync");
    await server.sql("SELECT pg_reload_conf()");
  });
  await server.sql("SELECT pg_reload_conf()");
  const { now } = Date;
  t.mock.method(Date, "now", () => now() + 5000);
  await assert.rejects(plants.create({ id: 2n, name: "Fern" }));
});

test("a role that cannot see how far standbys are is refused", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t);
  await assert.rejects(openPlants(t, { url, requireSync: true }), {
    code: "corruption",
    message: /GRANT pg_read_all_stats/,
  });
  await primary.sql("GRANT pg_read_all_stats TO plant_store");
  const plants = await openPlants(t, { url, requireSync: true });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
});

test("as many standbys prove a commit as the setting asks for", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t, { standbys: "" });
  await primary.sql("GRANT pg_read_all_stats TO plant_store");
  await primary.pauseCheckpointer(); // so that commits wait for no standby, whatever the setting is
  await primary.setStandbys("ANY 2 (standby, other)");
  const plants = await openPlants(t, { url, requireSync: true, databaseDeadlineMs: 1500 });
  await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
  await primary.setStandbys("ANY 1 (standby, other)");
  await until("it is proven", () =>
    plants.create({ id: 1n, name: "Fern" }).then(
      () => true,
      () => false,
    ),
  );
});
