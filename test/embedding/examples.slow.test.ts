/** The programs of docs/embedding.md and docs/client.md, run as they are written. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { transformSync } from "esbuild";
import { parseNewPlant } from "../../src/core/plant.ts";
import { createToken, exportLines } from "../../src/index.ts";
import { assertError, assertPlant } from "../support/contract.ts";
import { codeBlocks } from "../support/docs.ts";
import { whyNotInstalled } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { runToEnd } from "../support/run.ts";
import { collect } from "../support/stores.ts";
import { until } from "../support/watch.ts";
import { type Garden, settleGarden, settleIn, startProgram } from "./program.ts";

/** The program in a section. */
function programOf(section: string): string {
  const [program] = codeBlocks("docs/embedding.md", section, "ts");
  assert.ok(program !== undefined, `"${section}" has a program`);
  return program;
}

const SERVER = programOf("A server in ten lines");

/** Starts a TypeScript program, which gets a free port, no matter which one it asks for. */
async function start(t: TestContext, garden: Garden, program: string) {
  const { code } = transformSync(program, { loader: "ts", format: "esm", target: "node20" });
  writeFileSync(path.join(garden.folder, "program.mjs"), code);
  return startProgram(t, garden, ["--import", "./any-port.mjs", "program.mjs"]);
}

test("the first program has ten lines, makes a token, and prints it with its address", async (t) => {
  assert.equal(SERVER.split("\n").length - 1, 10);
  const folder = await settleIn(t, []);
  const garden = { folder, data: path.join(folder, "data"), token: "" };
  const { url, stdout } = await start(t, garden, SERVER);
  await until("it prints them", () => /^http:\S+\/plants pst_\S{43}\n/m.test(stdout()));
  const [token = ""] = /pst_\S{43}/.exec(stdout()) ?? [];
  assertPlant(await postPlant(url, token, '{"id":1,"name":"a"}'), { name: "a" });
});

const SERVERS: readonly [section: string, prefix: string, packages: readonly string[]][] = [
  ["A server in ten lines", "", []],
  ["node:http", "/garden", []],
  ["Fastify", "/garden", ["fastify"]],
  ["The whole server", "", []],
];

for (const [section, prefix, packages] of SERVERS) {
  const skip = packages.length > 0 && whyNotInstalled("test/embedding");
  test(`the program of "${section}" serves plants as it is written`, { skip }, async (t) => {
    const garden = await settleGarden(t, packages);
    const { url, stderr } = await start(t, garden, programOf(section));
    const base = `${url}${prefix}`;
    assertPlant(await postPlant(base, garden.token, '{"id":1,"name":"a"}'), { name: "a" });
    assertError(await postPlant(base, "wrong", '{"id":1,"name":"a"}'), 40102);
    assert.deepEqual(await stored(garden), [{ id: 1n, name: "a" }]);
    assert.equal(stderr(), "");
  });
}

const lacksExpress = whyNotInstalled("test/embedding");

test(`the program of "Express" takes the session of a login for the token`, {
  skip: lacksExpress,
}, async (t) => {
  const garden = await settleGarden(t, ["express"]);
  const login = 'const sessions = new Map<string, string>([["s1", "gardener"]]);';
  const program = programOf("Express").replace(/^const sessions = .*$/m, login);
  const { url, stderr } = await start(t, garden, program);
  const create = (session: string) =>
    fetch(`${url}/garden/plants`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Cookie: `a=b; session=${session}` },
      body: '{"id":1,"name":"a"}',
    });
  assert.deepEqual(await (await create("s1")).json(), { name: "a" });
  assert.equal((await create("other")).status, 401);
  assertError(await postPlant(`${url}/garden`, garden.token, '{"id":1,"name":"a"}'), 40102);
  assert.deepEqual(await stored(garden), [{ id: 1n, name: "a" }]);
  assert.equal(stderr(), "");
});

test("the documented token check is used, and no other", async (t) => {
  const garden = await settleGarden(t);
  const program = `process.env.TOKEN = "mine";\n${programOf("Your own store or token check")}`;
  const { url } = await start(t, garden, program);
  assertPlant(await postPlant(url, "mine", '{"id":1,"name":"a"}'), { name: "a" });
  assertError(await postPlant(url, garden.token, '{"id":1,"name":"a"}'), 40102);
});

test("the documented store creates, gets and lists", async (t) => {
  const garden = await settleGarden(t);
  const program = await start(t, garden, SERVER + programOf("Without HTTP"));
  await until("the plant is listed", () => program.stdout().includes("Fern\n"));
  assert.deepEqual(await stored(garden), [{ id: 7n, name: "Fern", tag: "indoor" }]);
  assert.equal(program.stderr(), "");
});

test("the documented subscription receives a request", async (t) => {
  const garden = await settleGarden(t);
  const program = await start(t, garden, programOf("Observe it") + SERVER);
  await postPlant(program.url, garden.token, '{"id":1,"name":"a"}');
  await until("it is received", () => program.stdout().includes("POST /plants 200"));
});

test("the documented client creates a plant, and prints it as JSON", async (t) => {
  const { folder, data } = await settleGarden(t);
  const token = await createToken(data, { name: "client", scopes: ["write", "read"] });
  const { url } = await start(t, { folder, data, token }, SERVER);
  const [example = ""] = codeBlocks("docs/client.md", "Client for JavaScript", "ts");
  assert.ok(example.includes('"http://127.0.0.1:8080"'));
  const program = path.join(folder, "client.mjs");
  const { code } = transformSync(example.replace("http://127.0.0.1:8080", url), { loader: "ts" });
  writeFileSync(program, code);
  const words = ["env", `TOKEN=${token}`, process.execPath, program];
  const { status, stdout, stderr } = await runToEnd(words, { cwd: folder });
  assert.deepEqual([status, stderr], [0, ""]);
  assert.equal(stdout, '{"id":9007199254740993,"name":"Fern","tag":"indoor"}\n');
});

async function stored({ data }: Garden) {
  const lines = Buffer.concat(await collect(exportLines(data)));
  const records = String(lines).split("\n").slice(0, -1);
  return records.map((record) => parseNewPlant(Buffer.from(record)));
}
