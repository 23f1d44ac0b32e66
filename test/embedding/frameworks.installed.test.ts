/** The examples, run with the real frameworks and the package as npm packs it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { isSound, verifyLog } from "../../src/tools.ts";
import { assertError, assertPlant } from "../support/contract.ts";
import { whyNotInstalled } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { runToEnd } from "../support/run.ts";
import { errorNumber, send } from "../support/service.ts";
import { HANG_MS } from "../support/watch.ts";
import { type Garden, settleGarden, startProgram } from "./program.ts";

const FRAMEWORKS = ["express", "fastify"];
const BIG_ID = "9007199254740993";

function readPlants({ data }: Garden): string {
  return readFileSync(path.join(data, "plants.jsonl"), "utf8");
}

describe("mounted", { skip: whyNotInstalled("test/embedding") }, () => {
  for (const example of ["node-http", "express", "fastify"]) {
    test(`examples/${example}.mjs serves plants beside its own routes, and ends in order`, async (t) => {
      const garden = await settleGarden(t, FRAMEWORKS);
      const program = await startProgram(t, garden, [`examples/${example}.mjs`]);
      const url = `${program.url}/garden`;
      const body = `{"id":${BIG_ID},"name":"Färn","tag":"indoor"}`;

      assertPlant(await postPlant(url, garden.token, body), { name: "Färn", tag: "indoor" });
      assert.equal(readPlants(garden), `${body}\n`);
      assertPlant(await postPlant(url, garden.token, body), { name: "Färn", tag: "indoor" });
      assertError(await postPlant(url, garden.token, `{"id":${BIG_ID},"name":"Ivy"}`), 40006);
      assertError(await postPlant(url, "pst_wrong", body), 40102);
      assertError(await postPlant(url, garden.token, "{"), 40003);
      assertError(await postPlant(url, garden.token, `"${"x".repeat(1024 * 1024)}"`), 41301);
      assertError(await postPlant(`${url}/else`, garden.token, body), 40401);
      assertError(await send(`${url}/plants`, { method: "PUT", headers: bearer(garden) }), 40501);

      const many = Array.from({ length: 50 }, (_, n) => `{"id":${n},"name":"a"}`);
      const answers = await Promise.all(many.map((one) => postPlant(url, garden.token, one)));
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
      assert.deepEqual(readPlants(garden).split("\n").slice(1, -1).sort(), many.sort());

      assert.equal((await send(program.url, {})).text, "hello");
      const { status, stderr } = await program.stop();
      assert.deepEqual([status, stderr], [0, ""]);
      assert.ok(isSound(await verifyLog(garden.data)));
    });
  }

  for (const example of ["express", "fastify"]) {
    test(`examples/${example}.mjs leaves the bodies of other routes to the framework`, async (t) => {
      const garden = await settleGarden(t, FRAMEWORKS);
      const { url } = await startProgram(t, garden, [`examples/${example}.mjs`]);
      const headers = { "Content-Type": "application/json" };
      const echo = await send(`${url}/echo`, { method: "POST", headers, body: '{"a":1}' });
      assert.deepEqual([echo.status, echo.text], [200, '{"a":1}']);
    });
  }

  test("examples/node-http.mjs logs every request of the plant store, and no other", async (t) => {
    const garden = await settleGarden(t, FRAMEWORKS);
    const program = await startProgram(t, garden, ["examples/node-http.mjs"]);
    await postPlant(`${program.url}/garden`, garden.token, '{"id":1,"name":"a"}');
    await postPlant(`${program.url}/garden`, "wrong", '{"id":1,"name":"a"}');
    await send(program.url, {});
    const { stdout } = await program.stop();
    assert.deepEqual(stdout.split("\n").slice(1), [
      "POST /garden/plants 200 test",
      "POST /garden/plants 401 nobody",
      "",
    ]);
  });

  for (const parser of ["none", "urlencoded"]) {
    test(`after a parser of Express that leaves JSON alone (${parser}) plants are created`, async (t) => {
      const garden = await settleGarden(t, FRAMEWORKS);
      const { url } = await startProgram(t, garden, ["programs/express-order.mjs", parser]);
      assertPlant(await postPlant(url, garden.token, '{"id":1,"name":"a"}'), { name: "a" });
      assert.equal(readPlants(garden), '{"id":1,"name":"a"}\n');
    });
  }

  for (const parser of ["json", "raw", "text"]) {
    test(`after express.${parser}() the answer names the mistake, and nothing hangs`, async (t) => {
      const garden = await settleGarden(t, FRAMEWORKS);
      const program = await startProgram(t, garden, ["programs/express-order.mjs", parser]);
      const { url } = program;
      for (const id of [1, BIG_ID]) {
        const answer = await postPlant(url, garden.token, `{"id":${id},"name":"a"}`);
        assert.match(assertError(answer, 50001), /before any body parser/);
      }
      // The token is checked first, as always.
      assertError(await postPlant(url, "wrong", '{"id":1,"name":"a"}'), 40102);
      assert.equal(readPlants(garden), "");
      const { status, stderr } = await program.stop();
      assert.equal(status, 0);
      assert.equal(stderr.split("before any body parser").length - 1, 2);
    });
  }

  test("requests that Fastify injects, as tests do, get their responses", async (t) => {
    const garden = await settleGarden(t, FRAMEWORKS);
    const { status, stdout, stderr } = await runToEnd([process.execPath, "programs/tools.mjs"], {
      cwd: garden.folder,
      env: { ...process.env, DATA: garden.data },
      timeout: HANG_MS,
    });
    assert.deepEqual([status, stderr], [0, ""]);
    const answers = stdout.split("\n").slice(0, -1);
    const creates = answers.slice(0, -2).map(parseAnswer);
    assert.deepEqual(
      creates.map((each) => (each.status === 200 ? 200 : errorNumber(each))),
      [40102, 40102, 41301, 200, 200],
    );
    assert.deepEqual(answers.slice(-3).map(parseAnswer), [
      { status: 200, text: '{"name":"nnn"}' },
      { status: 200, text: '[{"id":2,"name":"nnn"}]' },
      { status: 200, text: '{"id":2,"name":"nnn"}\n' },
    ]);
  });

  test("Fastify's inject() with a bad token answers 401, and its process ends with 0", async (t) => {
    const garden = await settleGarden(t, FRAMEWORKS);
    const { status, stdout, stderr } = await runToEnd([process.execPath, "programs/inject.mjs"], {
      cwd: garden.folder,
      env: { ...process.env, DATA: garden.data },
      timeout: HANG_MS,
    });
    assert.deepEqual([status, stdout, stderr], [0, "401\n", ""]);
  });

  test("JSON that Express itself refuses is answered by Express", async (t) => {
    const garden = await settleGarden(t, FRAMEWORKS);
    const { url } = await startProgram(t, garden, ["programs/express-order.mjs", "json"]);
    assert.equal((await postPlant(url, garden.token, "{")).status, 400);
  });
});

/** `[status, text]`. */
function parseAnswer(line: string): { status: number; text: string } {
  const [status, text] = JSON.parse(line);
  return { status, text };
}

function bearer({ token }: Garden) {
  return { Authorization: `Bearer ${token}` };
}
