/** The examples of the README, copied out of it as they stand, and the one that needs no framework. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { readPlants } from "../../src/index.ts";
import { assertError, assertPlant } from "../support/contract.ts";
import { postPlant } from "../support/post.ts";
import { codeBlocks } from "../support/readme.ts";
import { runToEnd } from "../support/run.ts";
import { collect } from "../support/stores.ts";
import { until } from "../support/watch.ts";
import { type Garden, settleGarden, startProgram } from "./program.ts";

/** The code blocks of the section, in order. */
const BLOCKS = codeBlocks("Embedding", "ts");
const [SERVER = "", STORE = "", CHANNEL = ""] = BLOCKS;

const AS_IT_STANDS = ["--import", "./programs/any-port.mjs", "readme.mjs"];

test("the README embeds the store in three lines behind the imports", () => {
  const lines = SERVER.split("\n").filter((line) => line !== "" && !line.startsWith("import "));
  assert.equal(lines.length, 3);
});

test("the README's server, as it stands, serves plants", async (t) => {
  const garden = await settleGarden(t);
  writeFileSync(path.join(garden.folder, "readme.mjs"), SERVER);
  const { url, stderr } = await startProgram(t, garden, AS_IT_STANDS);
  assertPlant(await postPlant(url, garden.token, '{"id":1,"name":"a"}'), { name: "a" });
  assertError(await postPlant(url, "wrong", '{"id":1,"name":"a"}'), 40102);
  assert.deepEqual(await stored(garden), [{ id: 1n, name: "a" }]);
  assert.equal(stderr(), "");
});

test("the README's store, as it stands, creates, gets and lists", async (t) => {
  const garden = await settleGarden(t);
  writeFileSync(path.join(garden.folder, "readme.mjs"), SERVER + STORE);
  const program = await startProgram(t, garden, AS_IT_STANDS);
  await until("the plant is listed", () => program.stdout().includes("Fern\n"));
  assert.deepEqual(await stored(garden), [{ id: 7n, name: "Fern", tag: "indoor" }]);
  assert.equal(program.stderr(), "");
});

test("the README's subscription, as it stands, hears of a request", async (t) => {
  const garden = await settleGarden(t);
  writeFileSync(path.join(garden.folder, "readme.mjs"), CHANNEL + SERVER);
  const program = await startProgram(t, garden, AS_IT_STANDS);
  await postPlant(program.url, garden.token, '{"id":1,"name":"a"}');
  await until("it is heard of", () => program.stdout().includes("POST /plants 200"));
});

test("examples/without-http.mjs says what came of each call, and may be run again", async (t) => {
  const garden = await settleGarden(t);
  for (const first of ["created", "replayed"]) {
    const program = ["env", `DATA=${garden.data}`, process.execPath, "examples/without-http.mjs"];
    const { status, stdout, stderr } = await runToEnd(program, { cwd: garden.folder });
    assert.deepEqual([status, stderr], [0, ""]);
    const [outcome, conflict, ...rest] = stdout.split("\n");
    assert.equal(outcome, first);
    assert.match(conflict ?? "", /9007199254740993/);
    assert.deepEqual(rest, ["Fern", "9007199254740993 Fern, indoor", ""]);
  }
});

async function stored({ data }: Garden) {
  return collect(readPlants(data));
}
