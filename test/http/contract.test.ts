/**
 * The contract over real HTTP: which bodies are plants, and what of them is
 * stored and answered. The other contract-*.test.ts files each hold one theme
 * of the rest; after every case the server must answer another request.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, assertPlant, exchange, ownLines } from "../support/contract.ts";
import { startService } from "../support/service.ts";

const INT64_IDS: readonly [spelling: string, id: string][] = [
  ["0", "0"],
  ["-0", "0"],
  ["-0.0e5", "0"],
  ["0e999999999", "0"],
  ["0.000E-999999999999999999999", "0"],
  ["7", "7"],
  ["-7", "-7"],
  ["7.0", "7"],
  ["70e-1", "7"],
  ["0.7E+1", "7"],
  ["1e18", "1000000000000000000"],
  ["9007199254740991", "9007199254740991"],
  ["9007199254740992", "9007199254740992"],
  ["9007199254740993", "9007199254740993"],
  ["-9007199254740993", "-9007199254740993"],
  ["9007199254740993.000", "9007199254740993"],
  ["9223372036854775807", "9223372036854775807"],
  ["922337203685477580.7e1", "9223372036854775807"],
  ["-9223372036854775808", "-9223372036854775808"],
  ["-9223372036854775808.0", "-9223372036854775808"],
  [`1${"0".repeat(100_000)}e-100000`, "1"],
];

const OTHER_IDS = [
  "9223372036854775808",
  "-9223372036854775809",
  "9223372036854775807.5",
  "9007199254740992.5",
  "1.0000000000000000000001",
  "0.5",
  "1e19",
  "1e400",
  "-1e400",
  "1e-400",
  "1E999999999",
  "1e-999999999",
  "1e99999999999999999999999999",
  '"7"',
  '""',
  "null",
  "true",
  "false",
  "[7]",
  '{"id":7}',
];

test("POST /plants takes every int64 as id, exactly", async (t) => {
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

const STRINGS: readonly [what: string, literal: string, value: string][] = [
  ["an empty string", '""', ""],
  ["nothing but spaces", '"   "', "   "],
  ["spaces and line ends at both ends", '" \\n\\tx\\r\\n "', " \n\tx\r\n "],
  ["a lone high surrogate", '"\\ud800"', "\ud800"],
  ["a lone low surrogate", '"x\\uDFFFy"', "x\udfffy"],
  ["surrogates in the wrong order", '"\\udc00\\ud800"', "\udc00\ud800"],
  ["NUL", '"a\\u0000b"', "a\0b"],
  ["every short escape", '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'],
  ["U+2028 and U+2029 as they stand", '"a\u2028b\u2029"', "a\u2028b\u2029"],
  ["DEL and C1 controls as they stand", '"\x7f\x80\x9f"', "\x7f\x80\x9f"],
  ["4-byte characters as they stand", '"🌱𝒳\u{10ffff}"', "🌱𝒳\u{10ffff}"],
  ["4-byte characters as escapes", '"\\ud83c\\udf31"', "🌱"],
  ["a BOM inside", '"\ufeffx"', "\ufeffx"],
  ["noncharacters", '"\uffff\u{1fffe}"', "\uffff\u{1fffe}"],
  ["letters with combining marks, not composed", '"e\u0301"', "e\u0301"],
  ["right-to-left overrides", '"\u202edlo\u202c"', "\u202edlo\u202c"],
  ["a name of the language's own", '"__proto__"', "__proto__"],
  ["JSON", '"{\\"id\\":1}"', '{"id":1}'],
  ["900 KB of ASCII", `"${"x".repeat(900_000)}"`, "x".repeat(900_000)],
  ["900 KB of 3-byte characters", `"${"木".repeat(300_000)}"`, "木".repeat(300_000)],
];

test("POST /plants takes any JSON string as name and as tag, unchanged", async (t) => {
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

test("a lone surrogate is answered as its escape, since no UTF-8 has it", async (t) => {
  const service = await startService(t);
  const answer = await exchange(service, { body: '{"id":1,"name":"\\ud800","tag":"\\udfff"}' });
  assert.equal(answer.text.toLowerCase(), '{"name":"\\ud800","tag":"\\udfff"}');
});

const DEEP = 100_000;
const PLAIN_LINE = '{"id":1,"name":"x"}';

const BODIES_OF_ONE_PLANT: readonly [what: string, body: string | Buffer, line?: string][] = [
  ["members in any order", '{"tag":"t","name":"x","id":1}', '{"id":1,"name":"x","tag":"t"}'],
  ["white space of every kind", ' \t\r\n{ "id" :\n1 ,\t"name" : "x"\r} \n'],
  ["the name id as an escape", '{"\\u0069d":1,"name":"x"}'],
  ["every name as escapes", '{"\\u0069\\u0064":1,"\\u006e\\u0061\\u006D\\u0065":"x"}'],
  ["an unknown member of arrays 100,000 deep", nest("[", "]")],
  ["an unknown member of objects 100,000 deep", nest('{"id":', "}", "1")],
  ["an unknown member __proto__", '{"__proto__":{"tag":"t","id":2},"id":1,"name":"x"}'],
  ["an unknown member constructor", '{"constructor":{"name":"y"},"id":1,"name":"x"}'],
  ["unknown members toString and hasOwnProperty", addMember('"toString":1,"hasOwnProperty":2')],
  ["unknown members that differ in case only", addMember('"ID":"7","Name":null,"TAG":5')],
  ["unknown members that differ by a space or NUL only", addMember('" id":2,"name\\u0000":3')],
  ["an unknown member with the empty name", addMember('"":""')],
  ["an unknown member with a lone surrogate for its name", addMember('"\\ud800":1')],
  ["an unknown member given twice", addMember('"a":1,"a":2')],
  ["id, name and tag given again further down", addMember('"a":{"id":2,"name":3,"tag":4}')],
  ["an unknown number beyond every double", addMember('"a":[1e999999999,-1E-999999999,-0]')],
  ["unknown members of every other kind", addMember('"a":[true,false,null,"",{},[]]')],
  ["20,000 unknown members", addMember(many(20_000))],
];

function addMember(members: string): string {
  return `{${members},"id":1,"name":"x"}`;
}

function nest(open: string, close: string, inner = ""): string {
  return addMember(`"a":${open.repeat(DEEP)}${inner}${close.repeat(DEEP)}`);
}

function many(count: number): string {
  return Array.from({ length: count }, (_, index) => `"member ${index}":${index}`).join();
}

test("POST /plants reads id, name and tag, and ignores whatever else there is", async (t) => {
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
