/**
 * The contract over real HTTP: which bodies are plants, and what is stored and answered. Each of the
 * other contract-*.test.ts files covers one further subject. After every case the server must answer
 * another request.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, assertPlant, exchange, ownLines } from "../support/contract.ts";
import {
  BODIES_OF_ONE_PLANT,
  INT64_IDS,
  OTHER_IDS,
  PLAIN_LINE,
  STRINGS,
} from "../support/contract-bodies.ts";
import { startService } from "../support/service.ts";

test("POST /plants accepts every int64 as id, exactly", async (t) => {
  for (const [spelling, id] of INT64_IDS) {
    await t.test(`the id ${spelling.slice(0, 40)} is stored as ${id}`, async (t) => {
      const service = await startService(t);
      const answer = await exchange(service, { body: `{"id":${spelling},"name":"x"}` });
      assert.equal(answer.text, '{"name":"x"}');
      assertPlant(answer, { name: "x" });
      assert.deepEqual(ownLines(service), [`{"id":${id},"name":"x"}`]);
    });
  }
});

test("POST /plants refuses every other id", async (t) => {
  const service = await startService(t);
  for (const id of OTHER_IDS) {
    await t.test(`the id ${id} is answered 40005`, async () => {
      assertError(await exchange(service, { body: `{"id":${id},"name":"x"}` }), 40005);
    });
  }
  assert.deepEqual(ownLines(service), []);
});

test("POST /plants accepts any JSON string as name and as tag, unchanged", async (t) => {
  const service = await startService(t);
  let id = 0n;
  for (const [what, literal, value] of STRINGS) {
    await t.test(`a name may be ${what}`, async () => {
      const plant = { id: ++id, name: value };
      const answer = await exchange(service, { body: `{"id":${id},"name":${literal}}` });
      assertPlant(answer, { name: value });
      assert.deepEqual(await service.store.get(id), plant);
    });
    await t.test(`a tag may be ${what}`, async () => {
      const plant = { id: ++id, name: "x", tag: value };
      const answer = await exchange(service, {
        body: `{"id":${id},"name":"x","tag":${literal}}`,
      });
      assertPlant(answer, { name: "x", tag: value });
      assert.deepEqual(await service.store.get(id), plant);
    });
  }
});

test("a lone surrogate is answered as its escape, because UTF-8 cannot contain it", async (t) => {
  const service = await startService(t);
  const answer = await exchange(service, { body: '{"id":1,"name":"\\ud800","tag":"\\udfff"}' });
  assert.equal(answer.text.toLowerCase(), '{"name":"\\ud800","tag":"\\udfff"}');
});

test("POST /plants reads id, name and tag, and ignores other members", async (t) => {
  for (const [what, body, line = PLAIN_LINE] of BODIES_OF_ONE_PLANT) {
    await t.test(`a body may have ${what}`, async (t) => {
      const service = await startService(t);
      const { id: _, ...plant } = JSON.parse(line);
      assertPlant(await exchange(service, { body }), plant);
      assert.deepEqual(ownLines(service), [line]);
    });
  }
});

test("an absent tag stays absent, an empty one stays empty", async (t) => {
  const service = await startService(t);
  const absent = await exchange(service, { body: '{"id":1,"name":"x"}' });
  const empty = await exchange(service, { body: '{"id":2,"name":"x","tag":""}' });
  assert.equal(absent.text, '{"name":"x"}');
  assert.equal(empty.text, '{"name":"x","tag":""}');
  assert.deepEqual(ownLines(service), ['{"id":1,"name":"x"}', '{"id":2,"name":"x","tag":""}']);
});
