/** The programs of docs/embedding.md and docs/client.md, run as they are written, with the packed library. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { transformSync } from "esbuild";
import { createToken, exportLines } from "../../src/index.ts";
import { codeBlocks } from "../support/docs.ts";
import { installLibrary, linkPackages, ROOT, whyNotInstalled } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { collect } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const HERE = `${ROOT}test/embedding`;
const PLANT = '{"id":7,"name":"Fern","tag":"indoor"}\n';

/** The program in a section. */
function programOf(section: string, page = "docs/embedding.md"): string {
  const [program = ""] = codeBlocks(page, section, "ts");
  assert.notEqual(program, "", `"${section}" has a program`);
  return program;
}

/** Installs the library and frameworks beside a program, which is made JavaScript. */
async function settle(t: TestContext, program: string, frameworks: readonly string[] = []) {
  const folder = await installLibrary(t);
  linkPackages(folder, HERE, frameworks);
  cpSync(path.join(HERE, "any-port.mjs"), path.join(folder, "any-port.mjs"));
  const { code } = transformSync(program, { loader: "ts", format: "esm", target: "node20" });
  writeFileSync(path.join(folder, "program.mjs"), code);
  return folder;
}

/** Starts the program, which gets a free port, no matter which one it asks for; it is killed at the end. */
async function start(t: TestContext, folder: string) {
  const child = spawn(process.execPath, ["--import", "./any-port.mjs", "program.mjs"], {
    cwd: folder,
    env: { ...process.env, TOKEN: "mine" },
  });
  t.after(() => child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const find = (pattern: RegExp) => pattern.exec(stdout)?.[1];
  const url = /listening on (\S+)\n/;
  await until("it listens", () => find(url) !== undefined || child.exitCode !== null);
  assert.ok(find(url) !== undefined, stderr);
  return { url: find(url) ?? "", find, stderr: () => stderr };
}

interface Row {
  readonly section: string;
  readonly page?: string;
  readonly prefix?: string;
  readonly packages?: readonly string[];
  readonly headers?: Record<string, string>;
}

const ROWS: readonly Row[] = [
  { section: "In your own server", page: "README.md" },
  { section: "A server in ten lines" },
  { section: "node:http", prefix: "/garden" },
  {
    section: "Express",
    prefix: "/garden",
    packages: ["express"],
    headers: { Cookie: "a=b; session=s1" },
  },
  { section: "Fastify", prefix: "/garden", packages: ["fastify"] },
  { section: "Your own store or token check", headers: { Authorization: "Bearer mine" } },
  { section: "The whole server" },
];

for (const { section, page, prefix = "", packages = [], headers } of ROWS) {
  const skip = packages.length > 0 && whyNotInstalled("test/embedding");
  test(`the program of "${section}" serves plants as it is written`, { skip }, async (t) => {
    const login = 'new Map<string, string>([["s1", "gardener"]])';
    const program = programOf(section, page).replace("new Map<string, string>()", login);
    const folder = await settle(t, programOf("Observe it") + program, packages);
    const token = await createToken(`${folder}/data`, { name: "test" });
    const { url, find, stderr } = await start(t, folder);
    const post = async (who: Record<string, string>) => {
      const all = { "Content-Type": "application/json", ...who };
      const init = { method: "POST", headers: all, body: PLANT };
      const response = await fetch(`${url}${prefix}/plants`, init);
      return `${response.status} ${await response.text()}`;
    };
    const good = headers ?? { Authorization: `Bearer ${token}` };
    assert.equal(await post(good), '200 {"name":"Fern","tag":"indoor"}');
    assert.match(
      await post({ Authorization: "Bearer other", Cookie: "session=other" }),
      /^401 .*4010/,
    );
    assert.equal(Buffer.concat(await collect(exportLines(`${folder}/data`))).toString(), PLANT);
    await until("the request is observed", () => find(/(POST \S*\/plants 200)/) !== undefined);
    assert.equal(stderr(), "");
  });
}

test("the first program has ten lines, makes a token and prints it, which the client uses", async (t) => {
  const program = programOf("A server in ten lines");
  assert.equal(program.split("\n").length - 1, 10);
  const folder = await settle(t, program);
  const { url, find } = await start(t, folder);
  await until("it prints them", () => find(/^http:\S+\/plants (pst_\S{43})\n/m) !== undefined);
  const client = programOf("Client for JavaScript", "docs/client.md");
  assert.ok(client.includes('"http://127.0.0.1:8080"'));
  const { code } = transformSync(client.replace("http://127.0.0.1:8080", url), { loader: "ts" });
  writeFileSync(path.join(folder, "client.mjs"), code);
  const words = ["env", `TOKEN=${find(/(pst_\S{43})/)}`, process.execPath, "client.mjs"];
  const { status, stdout, stderr } = await runToEnd(words, { cwd: folder });
  assert.deepEqual([status, stderr], [0, ""]);
  assert.equal(stdout, '{"id":9007199254740993,"name":"Fern","tag":"indoor"}\n');
});

test("the documented store creates, gets and lists", async (t) => {
  const program = programOf("A server in ten lines") + programOf("Without HTTP");
  const folder = await settle(t, program);
  const { find, stderr } = await start(t, folder);
  await until("the plant is listed", () => find(/^(Fern)$/m) !== undefined);
  assert.equal(Buffer.concat(await collect(exportLines(`${folder}/data`))).toString(), PLANT);
  assert.equal(stderr(), "");
});
