/** The contract of tokens on PostgreSQL. */
import { type TestContext, test } from "node:test";
import * as functions from "../../src/postgres/index.ts";
import { NEEDS_POSTGRES, openPlants, SharedCluster } from "../postgres/stores.ts";
import { runTokenContract, type Tokens } from "./contract.ts";

const cluster = new SharedCluster();

async function openDatabase(t: TestContext): Promise<Tokens<functions.PostgresPlants>> {
  const { cluster: server, database } = await cluster.createStore();
  const place = await openPlants(t, { url: server.url(database) });
  const live = await functions.PostgresTokens.open(place);
  t.after(() => live.close());
  return { place, functions, verifier: () => live.refresh().then(() => live) };
}

if (NEEDS_POSTGRES.skip === undefined) runTokenContract("PostgreSQL", openDatabase);
else test("the contract of tokens on PostgreSQL", NEEDS_POSTGRES);
