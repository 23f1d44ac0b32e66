/** The contract, row by row, on the command line in a process and on PostgreSQL. */
import { type TestContext, test } from "node:test";
import { encodeNewPlant } from "../../src/core/plant.ts";
import { importTokens } from "../../src/index.ts";
import { decodeRow } from "../../src/postgres/schema.ts";
import { ALL } from "../cases/all.ts";
import type { ServerSetting } from "../cases/case.ts";
import { loadDriver, NEEDS_POSTGRES, openStore, SharedCluster } from "../postgres/stores.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { writeLog } from "../support/stores.ts";
import { followLog, inProcess, makeTokens, type Ports } from "./backends.ts";
import { type Backend, runContract } from "./runner.ts";

const FLAGS: Readonly<Record<string, string>> = {
  basePath: "--base-path",
  bodyBytesMax: "--body-bytes-max",
  corsOrigins: "--cors-origin",
};

function flagsOf(setting: ServerSetting): string[] {
  return Object.entries(setting).flatMap(([name, value]) => {
    const flag = FLAGS[name];
    return flag === undefined ? [] : [value].flat().flatMap((each) => [flag, String(each)]);
  });
}

/** The command line in a process of its own. */
const PROCESS: Backend = {
  name: "process",
  async start(t, setting) {
    const folder = makeFolder(t);
    const { records, tokens } = makeTokens();
    await importTokens(folder, records);
    writeLog(folder, (setting.given ?? []).map((line) => `${line}\n`).join(""));
    const takeStored = followLog(folder);
    await takeStored();
    const words = ["--data", folder, "--log", "off", ...flagsOf(setting)];
    const { port } = await startServer(t, words);
    return { port, tokens, takeStored };
  },
};

runContract(PROCESS, ALL);

const cluster = new SharedCluster();

async function openDatabase(t: TestContext): Promise<Ports> {
  const { cluster: server, database: name } = await cluster.createStore();
  const { plants, tokens: verifier, tokenTable } = await openStore(t, { url: server.url(name) });
  const { records, tokens } = makeTokens();
  await tokenTable.import(records);
  await verifier.refresh();
  const pg = await loadDriver();
  const session = new pg.Client({ connectionString: server.url(name) });
  await session.connect();
  t.after(() => session.end());
  const seen: string[] = [];
  const takeStored = async () => {
    const { rows } = await session.query(
      `SELECT id::text, json_build_array(id::text, name, tag, exact)::text AS row
       FROM plant_store.plants WHERE id <> ALL ('{${seen.join()}}'::bigint[])`,
    );
    seen.push(...rows.map(({ id }: { readonly id: string }) => id));
    return rows.map(({ row }: { readonly row: string }) =>
      encodeNewPlant(decodeRow(JSON.parse(row))),
    );
  };
  return { plants, verifier, tokens, takeStored, isUnordered: true };
}

if (NEEDS_POSTGRES.skip === undefined) runContract(inProcess("postgres", openDatabase), ALL);
else test("the contract on postgres", NEEDS_POSTGRES);
