/**
 * Bodies that are not a plant: malformed JSON, bytes that are not UTF-8, values that are not an
 * object, and members that are missing, of the wrong type or given twice; and the messages about
 * them. None of these bodies reaches the log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertError, exchange, ownLines } from "../support/contract.ts";
import { startService } from "../support/service.ts";

/** A plant with this value of an unknown member, which may make it invalid. */
function withValue(value: string): string {
  return `{"id":1,"name":"x","a":${value}}`;
}

const MALFORMED: readonly [what: string, body: string][] = [
  ["nothing at all", ""],
  ["nothing but white space", " \t\r\n"],
  ["a comma after the last member", '{"id":1,"name":"x",}'],
  ["a comma after the last element", withValue("[1,]")],
  ["a comma before the first element", withValue("[,1]")],
  ["two commas", '{"id":1,,"name":"x"}'],
  ["a missing comma", '{"id":1 "name":"x"}'],
  ["a missing colon", '{"id" 1,"name":"x"}'],
  ["two colons", '{"id"::1,"name":"x"}'],
  ["a missing value", '{"id":,"name":"x"}'],
  ["a missing name", '{:1,"name":"x"}'],
  ["single quotes", "{'id':1,'name':'x'}"],
  ["names without quotes", '{id:1,name:"x"}'],
  ["a number for a name", '{1:1,"id":1,"name":"x"}'],
  ["a missing closing brace", '{"id":1,"name":"x"'],
  ["the wrong closing bracket", '{"id":1,"name":"x"]'],
  ["brackets that cross", withValue("[{]}")],
  ["an unclosed array of a million levels", "[".repeat(1_000_000)],
  ["unclosed objects 100,000 deep", '{"a":'.repeat(100_000)],
  ["a closing bracket too many", `${withValue("[]")}]`],
  ["two values", '{"id":1,"name":"x"}{"id":2,"name":"y"}'],
  ["two values on two lines", '{"id":1,"name":"x"}\n{"id":2,"name":"y"}\n'],
  ["a comma after the value", '{"id":1,"name":"x"},'],
  ["a semicolon after the value", '{"id":1,"name":"x"};'],
  ["a NUL after the value", '{"id":1,"name":"x"}\0'],
  ["a line comment", '{"id":1,"name":"x"}// end'],
  ["a block comment", '{"id":1,/* */"name":"x"}'],
  ["a hash comment", '# start\n{"id":1,"name":"x"}'],
  ["an id with a leading zero", '{"id":01,"name":"x"}'],
  ["a leading zero after a minus", '{"id":-01,"name":"x"}'],
  ["two zeros", withValue("00")],
  ["an id with a plus", '{"id":+1,"name":"x"}'],
  ["a plus before a number", withValue("+1")],
  ["no digit before the point", withValue(".5")],
  ["no digit after the point", withValue("1.")],
  ["a point before an exponent", withValue("1.e1")],
  ["an exponent without digits", withValue("1e")],
  ["a sign without an exponent", withValue("1e+")],
  ["two signs in an exponent", withValue("1e+-1")],
  ["a fraction in an exponent", withValue("1e1.5")],
  ["two points", withValue("1.2.3")],
  ["two minus signs", withValue("--1")],
  ["a minus alone", withValue("-")],
  ["NaN", '{"id":NaN,"name":"x"}'],
  ["Infinity", withValue("Infinity")],
  ["minus Infinity", withValue("-Infinity")],
  ["a hexadecimal number", withValue("0x10")],
  ["a number with a separator", withValue("1_000")],
  ["a bigint of the language", '{"id":1n,"name":"x"}'],
  ["digits of another script", '{"id":٣,"name":"x"}'],
  ["undefined", withValue("undefined")],
  ["True", withValue("True")],
  ["nul", withValue("nul")],
  ["truee", withValue("truee")],
  ["an unclosed string", '{"id":1,"name":"x'],
  ["a string that ends in a backslash", '{"id":1,"name":"x\\"}'],
  ["an escape of a line end", '{"id":1,"name":"a\\\nb"}'],
  ["the escape \\x41", '{"id":1,"name":"\\x41"}'],
  ["the escape \\'", '{"id":1,"name":"\\\'"}'],
  ["the escape \\0", '{"id":1,"name":"\\0"}'],
  ["the escape \\U0041", '{"id":1,"name":"\\U0041"}'],
  ["the escape \\u{41}", '{"id":1,"name":"\\u{41}"}'],
  ["an escape of three digits", '{"id":1,"name":"\\u004"}'],
  ["an escape without digits", '{"id":1,"name":"\\u"}'],
  ["an escape with a letter beyond f", '{"id":1,"name":"\\u00g0"}'],
  ["a bad escape after a high surrogate", '{"id":1,"name":"\\ud83c\\udf3"}'],
  ["a surrogate with a bad digit", '{"id":1,"name":"\\ud83c\\uzf31"}'],
  ["a bad escape in a member's name", '{"id":1,"name":"x","\\u00":1}'],
  ["a line feed inside a string", '{"id":1,"name":"a\nb"}'],
  ["a tab inside a string", '{"id":1,"name":"a\tb"}'],
  ["a NUL inside a string", '{"id":1,"name":"a\0b"}'],
  ["the control character U+001F inside a string", '{"id":1,"name":"a\x1fb"}'],
  ["a control character in a member's name", '{"id":1,"name":"x","a\n":1}'],
  ["a no-break space between members", '{"id":1,\u00a0"name":"x"}'],
  ["a form feed between members", '{"id":1,\f"name":"x"}'],
  ["U+2028 between members", '{"id":1,\u2028"name":"x"}'],
  ["a UTF-8 BOM in front", '\ufeff{"id":1,"name":"x"}'],
  ["a bare word", "plant"],
  ["form fields", "id=1&name=x"],
  ["XML", "<plant><id>1</id></plant>"],
  ["a spread", '{...{},"id":1,"name":"x"}'],
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
  ["a continuation byte alone", nameOf(0x80)],
  ["a character cut short", nameOf(0xe6, 0x9c)],
  ["a character cut short by the end of the body", Buffer.from([0x22, 0xf0, 0x9f])],
  ["a slash in two bytes", nameOf(0xc0, 0xaf)],
  ["NUL in two bytes", nameOf(0xc0, 0x80)],
  ["an encoded surrogate", nameOf(0xed, 0xa0, 0x80)],
  ["a character beyond U+10FFFF", nameOf(0xf4, 0x90, 0x80, 0x80)],
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

const NO_PLANTS: readonly string[] = [
  "[]",
  '[{"id":1,"name":"x"}]',
  '"x"',
  '""',
  "7",
  "-0.5e3",
  "true",
  "false",
  "null",
  "{}",
  '{"id":1}',
  '{"name":"x"}',
  '{"tag":"x"}',
  '{"plant":{"id":1,"name":"x"}}',
  '{"__proto__":{"id":1,"name":"x"}}',
  '{"id":1,"name":null}',
  '{"id":1,"name":7}',
  '{"id":1,"name":true}',
  '{"id":1,"name":["x"]}',
  '{"id":1,"name":{"toString":"x"}}',
  '{"id":1,"name":"x","tag":null}',
  '{"id":1,"name":"x","tag":7}',
  '{"id":1,"name":"x","tag":false}',
  '{"id":1,"name":"x","tag":["x"]}',
  '{"id":1,"name":"x","tag":{}}',
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
  ['{"id":1,"name":"x","id":2}', "id"],
  ['{"id":"7","id":1,"name":"x"}', "id"],
  ['{"id":1,"\\u0069\\u0064":1,"name":"x"}', "id"],
  ['{"id":1,"name":"x","name":"x"}', "name"],
  ['{"name":"y","id":1,"name":"x"}', "name"],
  ['{"id":1,"name":"x","n\\u0061me":"y"}', "name"],
  ['{"id":1,"name":"x","tag":"t","tag":"t"}', "tag"],
  ['{"id":1,"name":"x","tag":"t","tag":null}', "tag"],
  ['{"id":1,"name":"x","tag":"t","\\u0074ag":"t"}', "tag"],
  ['{"id":1,"id":1,"id":1,"name":"x"}', "id"],
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

test("the message cuts the values it shows to a sane length", async (t) => {
  const service = await startService(t);
  // The x makes a pair of surrogates span every even position at which a cut may be.
  const long = `x${"🌱".repeat(100_000)}`;
  for (const [what, id] of [
    ["a string", `"${long}"`],
    ["a number", "1".repeat(100_000)],
    ["an object", `{"a":"${long}"}`],
    ["an array", `["${long}"]`],
  ]) {
    await t.test(`${what} of 100,000 characters`, async () => {
      const answer = await exchange(service, { body: `{"id":${id},"name":"x"}` });
      const message = assertError(answer, 40005);
      assert.ok(message.length < 300, `${message.length} characters`);
      assert.doesNotMatch(message, /\\ud83c/i); // half a character would be shown as its escape
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
