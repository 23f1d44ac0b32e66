/** The programs of docs/examples, run as they are written, with the packed library. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { createToken, exportLines } from "../../src/index.ts";
import { installLibrary, linkPackages, ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { collect } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const EXAMPLES = path.join(ROOT, "docs/examples");
const URL_LINE = /^listening on (\S+)\n/m;
const TOKEN_LINE = /^token: (\S+)\n/m;
const PLANT = '{"id":7,"name":"Fern","tag":"indoor"}\n';

/** Copies the examples into a folder with the library, and with the framework of the one that runs. */
async function settle(t: TestContext, framework: string | undefined): Promise<string> {
  const folder = await installLibrary(t);
  if (framework !== undefined) linkPackages(folder, EXAMPLES, [framework]);
  for (const file of readdirSync(EXAMPLES).filter((name) => name.endsWith(".js"))) {
    cpSync(path.join(EXAMPLES, file), path.join(folder, file.replace(/js$/, "mjs")));
  }
  return folder;
}

/** Starts an example on a free port; `stop` ends it by SIGTERM, and resolves with its status. */
async function start(t: TestContext, folder: string, example: string) {
  const env = { ...process.env, PORT: "0" };
  const stdio: ["ignore", "pipe", "inherit"] = ["ignore", "pipe", "inherit"];
  const child = spawn(process.execPath, [`${example}.mjs`], { cwd: folder, env, stdio });
  t.after(() => child.kill("SIGKILL"));
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const find = (pattern: RegExp) => pattern.exec(output)?.[1] ?? "";
  await until("it listens", () => find(URL_LINE) !== "" || child.exitCode !== null);
  const stop = async () => {
    child.kill("SIGTERM");
    return (await once(child, "close"))[0];
  };
  return { url: find(URL_LINE), find, stop };
}

/** What a caller sends in place of a token of the data directory. */
const COOKIE = { Cookie: "a=b; session=s1" };

for (const [example, framework, headers] of [
  ["node-http"],
  ["express", "express", COOKIE],
  ["fastify", "fastify"],
] as const) {
  const skip =
    framework && !existsSync(`${EXAMPLES}/node_modules`) && "needs npm ci --prefix docs/examples";
  test(`the example ${example} stores a plant, refuses strangers, and stops`, {
    skip,
  }, async (t) => {
    const folder = await settle(t, framework);
    const token = await createToken(`${folder}/data`, { name: "test" });
    const { url, stop } = await start(t, folder, example);
    const post = async (who: Record<string, string>) => {
      const all = { "Content-Type": "application/json", Connection: "close", ...who };
      const response = await fetch(`${url}/plants`, { method: "POST", headers: all, body: PLANT });
      return `${response.status} ${await response.text()}`;
    };
    const good = headers ?? { Authorization: `Bearer ${token}` };
    assert.equal(await post(good), '200 {"name":"Fern","tag":"indoor"}');
    assert.match(await post({ Cookie: "session=other" }), /^401 /);
    assert.equal(await stop(), 0);
    assert.equal(Buffer.concat(await collect(exportLines(`${folder}/data`))).toString(), PLANT);
  });
}

test("the example client creates a plant and lists it, with the token that node-http prints", async (t) => {
  const folder = await settle(t, undefined);
  const { url, find } = await start(t, folder, "node-http");
  await until("it prints a token", () => find(TOKEN_LINE) !== "");
  const variables = [`URL=${url}`, `TOKEN=${find(TOKEN_LINE)}`];
  const words = ["env", ...variables, process.execPath, "client.mjs"];
  const { status, stdout, stderr } = await runToEnd(words, { cwd: folder });
  assert.deepEqual([status, stderr], [0, ""]);
  assert.equal(stdout, '{"id":9007199254740993,"name":"Fern","tag":"indoor"}\n');
});
