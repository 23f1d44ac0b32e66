import assert from "node:assert/strict";
import { test } from "node:test";
import { RECORD_BYTES_MAX } from "../../src/core/options.ts";
import { createToken } from "../../src/postgres/index.ts";
import { HANG_MS, TIMEOUT } from "../support/watch.ts";
import { collect } from "./conformance.ts";
import { compare, Load } from "./load.ts";
import { overHttp, startProxy, startServer } from "./servers.ts";
import { buildProgram, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const cluster = new SharedCluster();
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };

test(
  "nothing is lost when one of two servers behind a proxy is killed under load, then the other",
  OPTIONS,
  async (t) => {
    const { cluster: server, database, url } = await cluster.createStore();
    const operator = await openPlants(t, { url: server.url(database) });
    const token = await createToken(operator, { name: "app" });
    const program = buildProgram();
    const start = () =>
      startServer(t, [process.execPath, program, "serve", "--port", "0", "--database", url]);
    const servers = [await start(), await start()];
    const proxy = await startProxy(t, () => servers.map((each) => each.url));
    const load = new Load([overHttp(proxy, token)], 48);
    for (const at of [0, 1]) {
      await load.more(300);
      await servers[at]?.stop("SIGKILL");
      await load.more(300);
      servers[at] = await start();
    }
    await load.more(300);
    const report = await load.stop();
    assert.ok(report.failed > 0, "a kill was noticed");
    const found = compare(report, await collect(operator.list()));
    assert.deepEqual(found, { lost: 0, changed: 0, wrong: 0 });
  },
);

test(
  "a plant is stored if its line in a log is no longer than a record may be",
  OPTIONS,
  async (t) => {
    const { plants } = await cluster.openStore(t, { databaseDeadlineMs: HANG_MS });
    const rest = Buffer.byteLength('{"id":1,"name":""}\n');
    const ofBytes = (id: bigint, bytes: number) => ({ id, name: "x".repeat(bytes - rest) });
    assert.equal(await plants.create(ofBytes(1n, RECORD_BYTES_MAX)), "created");
    await assert.rejects(plants.create(ofBytes(2n, RECORD_BYTES_MAX + 1)), {
      code: "body_too_large",
    });
  },
);
