import assert from "node:assert/strict";
import { chownSync, copyFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { HANG_MS, TIMEOUT } from "../support/watch.ts";
import { Cluster } from "./cluster.ts";
import { NEEDS_POSTGRES, openStore, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_OPENSSL, ...NEEDS_POSTGRES, ...TIMEOUT };

/** A server with a certificate for 127.0.0.1, and the URL of a store with some parameters. */
async function startWithTls(t: TestContext, access: readonly string[]) {
  const { certPath, keyPath } = makeCertificate(t, "db.example");
  const cluster = await Cluster.start(t, { access });
  const { uid, gid } = statSync(cluster.data);
  for (const [from, name] of [
    [certPath, "server.crt"],
    [keyPath, "server.key"],
  ] as const) {
    const file = join(cluster.data, name);
    copyFileSync(from, file);
    chownSync(file, uid, gid);
  }
  await cluster.sql("ALTER SYSTEM SET ssl = on");
  await cluster.sql("SELECT pg_reload_conf()");
  await cluster.createStore("garden");
  const urlOf = (query: string, { user = "plant_store", host = "127.0.0.1" } = {}) =>
    cluster.url("garden", { user, query: `?${query}` }).replace("127.0.0.1", host);
  return { cluster, certPath, urlOf };
}

async function create(t: TestContext, url: string, deadlineMs = HANG_MS): Promise<string> {
  const { plants } = await openStore(t, { url, databaseDeadlineMs: deadlineMs });
  return plants.create({ id: 1n, name: "Fern" });
}

test("the certificate of the server is checked as sslmode requires", OPTIONS, async (t) => {
  const { certPath, urlOf } = await startWithTls(t, ["hostssl all all all trust"]);
  const { certPath: wrongPath } = makeCertificate(t, "other");
  assert.ok(await create(t, urlOf(`sslmode=verify-full&sslrootcert=${certPath}`)));
  const localhost = { host: "localhost" };
  assert.ok(await create(t, urlOf(`sslmode=verify-ca&sslrootcert=${certPath}`, localhost)));
  for (const [url, reason] of [
    [urlOf(`sslmode=verify-full&sslrootcert=${wrongPath}`), /self-signed|certificate/],
    [urlOf(`sslmode=require&sslrootcert=${wrongPath}`), /self-signed|certificate/],
    [urlOf("sslmode=verify-full"), /self-signed|certificate/],
    [urlOf(`sslmode=verify-full&sslrootcert=${certPath}`, localhost), /does not match/],
    [urlOf("sslmode=disable"), /no encryption|pg_hba/],
  ] as const) {
    await assert.rejects(create(t, url, 3000), { code: "io_error", message: reason }, url);
  }
});

const plain = new SharedCluster();

test("TLS is not given up for a server without it", OPTIONS, async (t) => {
  const { url } = await plain.createStore();
  await assert.rejects(create(t, `${url}?sslmode=require`, 3000), /does not support SSL/);
});
