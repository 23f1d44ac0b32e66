import assert from "node:assert/strict";
import { chownSync, copyFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Cluster } from "./cluster.ts";
import { OPTIONS as NEEDS, openStore } from "./stores.ts";

const OPTIONS = { ...NEEDS_OPENSSL, ...NEEDS };

test("the certificate of the server is checked as sslmode requires", OPTIONS, async (t) => {
  const { certPath: ours, keyPath } = makeCertificate(t, "db.example"); // and for 127.0.0.1
  const { certPath: wrong } = makeCertificate(t, "other");
  const cluster = await Cluster.start(t, ["hostssl all all all trust"]);
  await cluster.createStore("garden");
  const create = async (query: string, host = "127.0.0.1") => {
    const url = cluster.url("garden", "plant_store", `?${query}`).replace("127.0.0.1", host);
    const { plants } = await openStore(t, { url, databaseDeadlineMs: 3000 });
    return plants.create({ id: 1n, name: "Fern" });
  };
  const refused = (message: RegExp, query: string, host?: string) =>
    assert.rejects(create(query, host), { code: "io_error", message }, query);

  await refused(/does not support SSL/, "sslmode=require");
  const { uid, gid } = statSync(cluster.data);
  const install = (from: string, name: string) => {
    const file = join(cluster.data, name);
    copyFileSync(from, file);
    chownSync(file, uid, gid);
  };
  install(ours, "server.crt");
  install(keyPath, "server.key");
  await cluster.set("ssl", "on");
  assert.ok(await create(`sslmode=verify-full&sslrootcert=${ours}`));
  assert.ok(await create(`sslmode=verify-ca&sslrootcert=${ours}`, "localhost"));
  await refused(/certificate/, `sslmode=verify-full&sslrootcert=${wrong}`);
  await refused(/certificate/, `sslmode=require&sslrootcert=${wrong}`);
  await refused(/certificate/, "sslmode=verify-full");
  await refused(/does not match/, `sslmode=verify-full&sslrootcert=${ours}`, "localhost");
  await refused(/no encryption|pg_hba/, "sslmode=disable");
});
