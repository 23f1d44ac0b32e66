/** The contract of tokens on PostgreSQL. */
import { type TestContext, test } from "node:test";
import { isLive, type TokenRecord } from "../../src/core/token.ts";
import type { TokenTable } from "../../src/postgres/index.ts";
import { NEEDS_POSTGRES, openStore, SharedCluster } from "../postgres/stores.ts";
import { runTokenContract, type Tokens } from "./contract.ts";

const cluster = new SharedCluster();

const FUNCTIONS: Tokens<TokenTable>["functions"] = {
  createToken: (table, token) => table.create(token),
  createFirstToken: async (table, token) => {
    const isLiveNow = (each: TokenRecord) => isLive(each, Date.now());
    return (await table.list()).some(isLiveNow) ? undefined : table.create(token);
  },
  revokeToken: (table, name) => table.revoke(name),
  importTokens: (table, records) => table.import(records),
  listTokens: (table) => table.list(),
};

async function openDatabase(t: TestContext): Promise<Tokens<TokenTable>> {
  const { cluster: server, database } = await cluster.createStore();
  const { tokens, tokenTable: place } = await openStore(t, { url: server.url(database) });
  return { place, functions: FUNCTIONS, verifier: () => tokens.refresh().then(() => tokens) };
}

if (NEEDS_POSTGRES.skip === undefined) runTokenContract("PostgreSQL", openDatabase);
else test("the contract of tokens on PostgreSQL", NEEDS_POSTGRES);
