/**
 * Bodies that are not a plant: malformed JSON, bytes that are not UTF-8, values that are not an
 * object, and members that are missing, of the wrong type or given twice; and the messages about
 * them. None of these bodies reaches the log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, exchange, ownLines } from "../support/contract.ts";
import { startService } from "../support/service.ts";

/** One of each kind; what JSON is, is compared with JSON.parse in test/core/json. */
const MALFORMED: readonly [what: string, body: string][] = [
  ["nothing at all", ""],
  ["nothing but white space", " \t\r\n"],
  ["a comma after the last member", '{"id":1,"name":"x",}'],
  ["a missing closing brace", '{"id":1,"name":"x"'],
  ["an unclosed array of a million levels", "[".repeat(1_000_000)],
  ["unclosed objects 100,000 deep", '{"a":'.repeat(100_000)],
  ["two values on two lines", '{"id":1,"name":"x"}\n{"id":2,"name":"y"}\n'],
  ["a NUL after the value", '{"id":1,"name":"x"}\0'],
  ["an id with a leading zero", '{"id":01,"name":"x"}'],
  ["an escape that JSON does not have", '{"id":1,"name":"\\x41"}'],
  ["a line feed inside a string", '{"id":1,"name":"a\nb"}'],
  ["a UTF-8 BOM in front", '\ufeff{"id":1,"name":"x"}'],
  ["form fields", "id=1&name=x"],
];

test("a body that is not JSON by RFC 8259 is answered 40003", async (t) => {
  const service = await startService(t);
  for (const [what, body] of MALFORMED) {
    await t.test(`a body with ${what} is malformed`, async () => {
      assertError(await exchange(service, { body }), 40003);
    });
  }
  assert.deepEqual(ownLines(service), []);
});

/** A body with these bytes in place of a name. */
function nameOf(...bytes: readonly number[]): Buffer {
  return Buffer.concat([Buffer.from('{"id":1,"name":"'), Buffer.from(bytes), Buffer.from('"}')]);
}

const NOT_UTF8: readonly [what: string, body: Buffer][] = [
  ["a byte that UTF-8 never has", nameOf(0xff)],
  ["a character cut short by the end of the body", Buffer.from([0x22, 0xf0, 0x9f])],
  ["an encoded surrogate", nameOf(0xed, 0xa0, 0x80)],
  ["Latin-1", Buffer.from('{"id":1,"name":"Gänseblümchen"}', "latin1")],
  ["invalid bytes in an unknown member", Buffer.from('{"id":1,"name":"x","a":"\xe9"}', "latin1")],
  ["UTF-16 with its BOM", Buffer.from('\ufeff{"id":1,"name":"x"}', "utf16le")],
  ["gzip", Buffer.from([0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00])],
];

test("a body that is not UTF-8 is answered 40002", async (t) => {
  const service = await startService(t);
  for (const [what, body] of NOT_UTF8) {
    await t.test(`a body with ${what} is refused`, async () => {
      assertError(await exchange(service, { body }), 40002);
    });
  }
  assert.deepEqual(ownLines(service), []);
});

/** One of each kind; test/core/plant has the others, and their messages. */
const NO_PLANTS: readonly string[] = [
  "[]",
  '"x"',
  "null",
  "{}",
  '{"id":1}',
  '{"__proto__":{"id":1,"name":"x"}}',
  '{"id":1,"name":null}',
  '{"id":1,"name":{"toString":"x"}}',
  '{"id":1,"name":"x","tag":null}',
  '{"Id":1,"NAME":"x"}',
];

test("JSON that is not a NewPlant is answered 40005", async (t) => {
  const service = await startService(t);
  for (const body of NO_PLANTS) {
    await t.test(`${body} is refused`, async () => {
      assertError(await exchange(service, { body }), 40005);
    });
  }
  assert.deepEqual(ownLines(service), []);
});

const DUPLICATES: readonly [body: string, field: string][] = [
  ['{"id":1,"id":1,"name":"x"}', "id"],
  ['{"name":"y","id":1,"name":"x"}', "name"],
  ['{"id":1,"name":"x","tag":"t","\\u0074ag":null}', "tag"],
];

test("id, name or tag given twice is answered 40004", async (t) => {
  const service = await startService(t);
  for (const [body, field] of DUPLICATES) {
    await t.test(`${body} is refused for its ${field}`, async () => {
      const message = assertError(await exchange(service, { body }), 40004);
      assert.deepEqual(fieldsNamedIn(message), [field]);
    });
  }
  assert.deepEqual(ownLines(service), []);
});

/** The members that a message finds fault with. */
function fieldsNamedIn(message: string): string[] {
  return ["id", "name", "tag"].filter((field) => new RegExp(`\\b${field}:`).test(message));
}

const FAULTS: readonly [body: string, error: number, fields: string][] = [
  ["{}", 40005, "id,name"],
  ['{"id":"7"}', 40005, "id,name"],
  ['{"id":1.5,"name":null,"tag":7}', 40005, "id,name,tag"],
  ['{"id":1,"name":[],"tag":{}}', 40005, "name,tag"],
  ['{"id":9223372036854775808,"name":"x","tag":null}', 40005, "id,tag"],
  ['{"id":1,"id":2,"name":7}', 40004, "id,name"],
  ['{"tag":"a","tag":"b"}', 40004, "id,name,tag"],
];

test("the message names every faulty member at once and no other", async (t) => {
  const service = await startService(t);
  for (const [body, error, fields] of FAULTS) {
    await t.test(`${body} has faults in ${fields}`, async () => {
      const message = assertError(await exchange(service, { body }), error);
      assert.equal(fieldsNamedIn(message).join(), fields);
    });
  }
});

test("the message of malformed JSON does not repeat the body", async (t) => {
  const service = await startService(t);
  const message = assertError(
    await exchange(service, { body: `{"id":1,"name":${"secret".repeat(10_000)}}` }),
    40003,
  );
  assert.ok(message.length < 300, `${message.length} characters`);
});
