/**
 * Servers that are frozen while a token is revoked, over a folder and over a database; and tokens that the
 * command line creates, and that are used at once. Prints how many requests were answered how.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createToken, type NewToken, revokeToken } from "../../src/index.ts";
import * as postgres from "../../src/postgres/index.ts";
import { startServer as startOverDatabase } from "../postgres/servers.ts";
import { buildProgram, NEEDS_POSTGRES, openPlants, SharedCluster } from "../postgres/stores.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { FREEZERS } from "../support/freeze.ts";
import { Answers, freezeOnce, type Target } from "../support/frozen-server.ts";
import { postPlant } from "../support/post.ts";
import { runToEnd } from "../support/run.ts";
import { HANG_MS } from "../support/watch.ts";

const OPTIONS = { timeout: 10 * HANG_MS };
const ROUNDS = 20;
/** Servers that are frozen at the same time. */
const SERVERS = 4;
const CREATED = 100;
/** Who create tokens at the same time. */
const OPERATORS = 4;

const cluster = new SharedCluster();

/** A server in a process of its own. */
interface Started extends Target {
  readonly url: string;
  /** Creates a token by the command line. */
  createByCommand(name: string): Promise<string>;
}

type Start = (t: TestContext, env: Record<string, string>) => Promise<Started>;

async function startOnFolder(t: TestContext, env: Record<string, string>): Promise<Started> {
  const folder = makeFolder(t);
  const { port, url, process: child } = await startServer(t, ["--data", folder], { env });
  return {
    pid: child.pid ?? 0,
    port,
    url,
    createToken: (token: NewToken) => createToken(folder, token),
    revokeToken: (name) => revokeToken(folder, name),
    createByCommand: async (name) =>
      (await runCli(["token", "create", name, "--data", folder])).stdout.trim(),
  };
}

let program: string | undefined;

async function startOnDatabase(t: TestContext, env: Record<string, string>): Promise<Started> {
  program ??= buildProgram();
  const command = [process.execPath, program];
  const { cluster: server, database, url: storeUrl } = await cluster.createStore();
  const owner = server.url(database);
  const operator = await openPlants(t, { url: owner });
  const args = ["serve", "--port", "0", "--database", storeUrl];
  const { pid, url } = await startOverDatabase(t, [...command, ...args], env);
  return {
    pid,
    port: Number(new URL(url).port),
    url,
    createToken: (token) => postgres.createToken(operator, token),
    revokeToken: (name) => postgres.revokeToken(operator, name),
    createByCommand: async (name) => {
      const words = [...command, "token", "create", name, "--database", owner];
      return (await runToEnd(words)).stdout.trim();
    },
  };
}

const STORES: readonly [store: string, start: Start, needs: { readonly skip?: string }][] = [
  ["a folder", startOnFolder, {}],
  ["a database", startOnDatabase, NEEDS_POSTGRES],
];

for (const [store, start, needs] of STORES) {
  for (const [how, makeFreezer] of Object.entries(FREEZERS)) {
    test(`a token that was revoked during ${how} is refused, over ${store}`, {
      ...OPTIONS,
      ...needs,
    }, async (t) => {
      const answers = { revoked: new Answers(), good: new Answers() };
      const work: (() => Promise<void>)[] = [];
      for (let server = 0; server < SERVERS; server++) {
        const freezer = makeFreezer(t);
        if (typeof freezer === "string") return t.skip(freezer);
        const target = await start(t, freezer.env);
        work.push(async () => {
          for (let round = 0; round < ROUNDS / SERVERS; round++) {
            await freezeOnce(target, freezer, answers);
          }
        });
      }
      await Promise.all(work.map((each) => each()));
      const { revoked, good } = answers;
      t.diagnostic(`${how}, ${store}: ${ROUNDS} rounds; revoked: ${revoked}; good: ${good}`);
      assert.equal(revoked.of(200), 0);
      assert.equal(good.of(200), good.total);
    });
  }

  test(`a token that the command line has created is accepted at once, over ${store}`, {
    ...OPTIONS,
    ...needs,
  }, async (t) => {
    const { url, createByCommand } = await start(t, {});
    const answers = new Answers();
    let created = 0;
    const operate = async () => {
      while (created < CREATED) {
        const id = created++;
        const token = await createByCommand(`app-${id}`);
        answers.add((await postPlant(url, token, `{"id":${id},"name":"x"}`)).status);
      }
    };
    await Promise.all(Array.from({ length: OPERATORS }, operate));
    t.diagnostic(`create, then POST, ${store}: ${answers}`);
    assert.equal(answers.of(200), CREATED);
  });
}
