/**
 * Creates with an id that is taken. An identical plant is a replay, with the same answer as the first
 * time. Another plant is a conflict. Neither writes anything, also if the requests are in flight at
 * the same moment.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, assertPlant, exchange, ownLines } from "../support/contract.ts";
import { startService } from "../support/service.ts";

const STORED = '{"id":7,"name":"Fern é","tag":"indoor"}';

const REPLAYS: readonly string[] = [
  STORED,
  '{"tag":"indoor","name":"Fern é","id":7}',
  ' { "id" : 7 , "name" : "Fern é" , "tag" : "indoor" } ',
  '{"id":7.0,"name":"Fern é","tag":"indoor"}',
  '{"id":70e-1,"name":"Fern é","tag":"indoor"}',
  '{"id":7,"name":"Fern \\u00E9","tag":"\\u0069ndoor"}',
  '{"id":7,"name":"Fern é","tag":"indoor","more":[1,2,3]}',
];

test("a repeat of a stored plant is answered 200 and writes nothing", async (t) => {
  const service = await startService(t);
  const first = await exchange(service, { body: STORED });
  for (const body of REPLAYS) {
    await t.test(body, async () => {
      const answer = await exchange(service, { body });
      assertPlant(answer, { name: "Fern é", tag: "indoor" });
      assert.equal(answer.text, first.text);
    });
  }
  assert.deepEqual(ownLines(service), [STORED]);
});

const CONFLICTS: readonly string[] = [
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id":7,"name":"fern é","tag":"indoor"}',
  '{"id":7,"name":"Fern é ","tag":"indoor"}',
  '{"id":7,"name":"Fern e\u0301","tag":"indoor"}',
  '{"id":7,"name":"","tag":"indoor"}',
  '{"id":7,"name":"Fern é","tag":"outdoor"}',
  '{"id":7,"name":"Fern é","tag":""}',
  '{"id":7,"name":"Fern é"}',
  '{"id":7,"name":"indoor","tag":"Fern é"}',
  '{"id":7.000,"name":"x"}',
];

test("another plant under a stored id is answered 40006 and changes nothing", async (t) => {
  const service = await startService(t);
  assertPlant(await exchange(service, { body: STORED }), { name: "Fern é", tag: "indoor" });
  for (const body of CONFLICTS) {
    await t.test(body, async () => {
      assertError(await exchange(service, { body }), 40006);
    });
  }
  assertPlant(await exchange(service, { body: STORED }), { name: "Fern é", tag: "indoor" });
  assert.deepEqual(ownLines(service), [STORED]);
});

test("an empty tag and no tag are different plants, either way round", async (t) => {
  const service = await startService(t);
  for (const [id, first, second] of [
    [1, "", ',"tag":""'],
    [2, ',"tag":""', ""],
  ] as const) {
    assert.equal(
      (await exchange(service, { body: `{"id":${id},"name":"x"${first}}` })).status,
      200,
    );
    assertError(await exchange(service, { body: `{"id":${id},"name":"x"${second}}` }), 40006);
  }
});

test("names that differ in a lone surrogate only are different plants", async (t) => {
  const service = await startService(t);
  const answer = await exchange(service, { body: '{"id":1,"name":"\\ud800"}' });
  assertPlant(answer, { name: "\ud800" });
  assertPlant(await exchange(service, { body: '{"id":1,"name":"\\uD800"}' }), { name: "\ud800" });
  // A careless decoder turns both into U+FFFD.
  for (const name of ["\\ud801", "\\udc00", "\\ufffd"]) {
    assertError(await exchange(service, { body: `{"id":1,"name":"${name}"}` }), 40006);
  }
});

test("ids next to each other beyond 2^53 are different plants", async (t) => {
  const service = await startService(t);
  const ids = ["9007199254740992", "9007199254740993", "9007199254740994"];
  for (const id of ids) {
    const body = `{"id":${id},"name":"plant ${id}"}`;
    assertPlant(await exchange(service, { body }), { name: `plant ${id}` });
  }
  assert.deepEqual(
    ownLines(service),
    ids.map((id) => `{"id":${id},"name":"plant ${id}"}`),
  );
});

test("after a refused create its id is still free", async (t) => {
  const service = await startService(t);
  assertError(await exchange(service, { body: '{"id":1,"name":null}' }), 40005);
  assertError(await exchange(service, { body: '{"id":1,"id":1,"name":"x"}' }), 40004);
  assertPlant(await exchange(service, { body: '{"id":1,"name":"y"}' }), { name: "y" });
});

test("a hundred identical requests at once are a hundred 200s and one line", async (t) => {
  const service = await startService(t);
  const answers = await Promise.all(Array.from({ length: 100 }, () => service.post(STORED)));
  for (const answer of answers) {
    assertPlant(answer, { name: "Fern é", tag: "indoor" });
    assert.equal(answer.text, answers[0]?.text);
  }
  assert.deepEqual(ownLines(service), [STORED]);
  assertPlant(await exchange(service, { body: STORED }), { name: "Fern é", tag: "indoor" });
});

test("a hundred plants of one id at once are one 200, ninety-nine 40006 and one line", async (t) => {
  const service = await startService(t);
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, index) => service.post(`{"id":7,"name":"name ${index}"}`)),
  );
  const created = answers.filter(({ status }) => status === 200);
  assert.equal(created.length, 1);
  for (const answer of answers) {
    if (answer !== created[0]) assertError(answer, 40006);
  }
  const name = JSON.parse(created[0]?.text ?? "").name;
  assert.deepEqual(ownLines(service), [`{"id":7,"name":"${name}"}`]);
  // The winner's repeat is a replay from now on.
  assertPlant(await exchange(service, { body: `{"id":7,"name":"${name}"}` }), { name });
});

test("a hundred different plants at once are a hundred 200s and a hundred lines", async (t) => {
  const service = await startService(t);
  const bodies = Array.from({ length: 100 }, (_, id) => `{"id":${id},"name":"name ${id}"}`);
  const answers = await Promise.all(bodies.map((body) => service.post(body)));
  for (const [id, answer] of answers.entries()) assertPlant(answer, { name: `name ${id}` });
  assert.deepEqual(ownLines(service).sort(), bodies.sort());
});
