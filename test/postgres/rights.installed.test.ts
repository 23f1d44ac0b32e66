/** What the role of the servers cannot do with the tables. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TIMEOUT } from "../support/watch.ts";
import { NEEDS_POSTGRES, SharedCluster } from "./stores.ts";

const cluster = new SharedCluster();

for (const [what, statement] of [
  ["change the name of a plant", "UPDATE plants SET name = 'Moss'"],
  ["remove a plant", "DELETE FROM plants"],
  ["create a token", "INSERT INTO plant_tokens VALUES ('hash', 'app', 'write', 1)"],
] as const) {
  test(`the role of the servers cannot ${what}`, { ...NEEDS_POSTGRES, ...TIMEOUT }, async () => {
    const { cluster: server, database } = await cluster.createStore();
    const attempt = server.sql(`SET ROLE plant_store; ${statement}`, database);
    await assert.rejects(attempt, /permission denied for table/);
  });
}
