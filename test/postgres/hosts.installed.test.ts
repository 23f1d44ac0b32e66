/** Which of several hosts a store uses, and which standbys prove its commits. */
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { collectWarnings, TIMEOUT, until } from "../support/watch.ts";
import { Cluster } from "./cluster.ts";
import { NEEDS_POSTGRES, openStore, SharedCluster, startPair, succeeds } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();

test(
  "two hosts of one timeline that accept writes are refused, also in service",
  OPTIONS,
  async (t) => {
    const original = await Cluster.start(t);
    await original.createStore("garden");
    const clone = await Cluster.clone(t, original);
    await clone.stop();
    const names = [original, clone].map(({ port }) => `127.0.0.1:${port}`);
    const url = `postgresql://plant_store@${names.join()}/garden`;
    const warnings = collectWarnings(t);
    const { plants } = await openStore(t, { url, databaseDeadlineMs: 2000 });
    await plants.create({ id: 1n, name: "Fern" });
    await clone.start();
    await until("the store refuses", () =>
      warnings.some(({ message }) => names.every((name) => message.includes(name))),
    );
    await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "write_failed" });
    // On a busy machine one of two hosts may answer too late to be compared.
    await until("a start is refused", () =>
      openStore(t, { url }).then(
        () => false,
        ({ code }) => code === "corruption",
      ),
    );
    await clone.stop();
    await until("the store goes on", () => succeeds(plants.create({ id: 2n, name: "Fern" })));
  },
);

test("two names of one server are one host", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const url = `postgresql://plant_store@127.0.0.1:${server.port},127.0.0.2:${server.port}/${database}`;
  await server.sql("ALTER SYSTEM SET listen_addresses = '127.0.0.1,127.0.0.2'");
  await server.stop();
  await server.start();
  const { plants } = await openStore(t, { url });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
});

test("a host that does not respond is not waited for", OPTIONS, async (t) => {
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
  await openStore(t, { url: `postgresql://plant_store@${hosts}/${database}` });
  assert.equal(sockets.size, 1, "it is still being asked");
});

test("as many standbys prove a commit as the setting asks for", OPTIONS, async (t) => {
  const { primary, url } = await startPair(t, { standbys: "" });
  await primary.sql("GRANT pg_read_all_stats TO plant_store");
  await primary.pauseCheckpointer(); // so that commits wait for no standby, whatever the setting is
  await primary.setStandbys("ANY 1 (standby, other)");
  const { plants } = await openStore(t, { url, requireSync: true, databaseDeadlineMs: 1500 });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
  await primary.setStandbys("ANY 2 (standby, other)");
  await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "write_failed" });
});
