/** Which bodies are plants, what is stored and responded; repeats and conflicts. `core` shows the same of any JSON. */
import { bad, type Case, create, good, naming, X } from "./case.ts";

/** Spellings of ids, and the ids that they are. */
const IDS: readonly [spelling: string, id: string][] = [
  ["-<1>", "-<1>"],
  ["<1>.0", "<1>"],
  ["<1>0e-1", "<1>"],
  ["0.<1>E+7", "<1>"],
  [`<1>${"0".repeat(100_000)}e-100000`, "<1>"],
  ["-0.0e5", "0"],
  ["0.000E-999999999999999999999", "0"],
  ["9007199254740991", "9007199254740991"],
  ["9007199254740993", "9007199254740993"],
  ["9007199254740993.000", "9007199254740993"],
  ["922337203685477580.7e1", "9223372036854775807"],
  ["-9223372036854775808", "-9223372036854775808"],
];

const NO_IDS = [
  ...["9223372036854775808", "-9223372036854775809", "9223372036854775807.5", "0.5", "1e19"],
  ...["1e400", "1e-400", "1e99999999999999999999999999", '"7"', "null", "[7]"],
];

/** Any JSON string is a name and a tag: how it is sent, and as the log has it, if that differs. */
const STRINGS: readonly [what: string, sent: string, stored?: string][] = [
  ["an empty string", ""],
  ["spaces and line ends at both ends", " \\n\\tx\\r\\n "],
  ["a lone surrogate", "x\\uDFFFy", "x\\udfffy"],
  ["NUL", "a\\u0000b"],
  ["every short escape", '\\"\\\\\\/\\b\\f\\n\\r\\t', '\\"\\\\/\\b\\f\\n\\r\\t'],
  ["controls and line separators unescaped", "\x7f\x80\x9f\u2028\u2029"],
  ["4-byte characters as escapes", "\\ud83c\\udf31", "🌱"],
  ["a BOM, and a noncharacter", "\ufeffx\uffff"],
  ["letters with combining marks, not composed", "e\u0301"],
  ["a name that JavaScript uses itself", "__proto__"],
  ["490 KB of ASCII and 3-byte characters", "x".repeat(400_000) + "木".repeat(30_000)],
];

const DEEP = 100_000;

/** Bodies of the plant X. */
const SAME_PLANT: readonly [what: string, body: string][] = [
  ["members in any order", '{"name":"x","id":<1>}'],
  ["white space of every kind", ' \t\r\n{ "id" :\n<1> ,\t"name" : "x"\r} \n'],
  ["names as escapes", '{"\\u0069\\u0064":<1>,"\\u006e\\u0061\\u006D\\u0065":"x"}'],
  ["an unknown member of objects 100,000 deep", nest('{"id":', "}", "1")],
  ["an unknown member __proto__", add('"__proto__":{"tag":"t","id":2}')],
  ["unknown members that differ in case only", add('"ID":"7","Name":null,"TAG":5')],
  ["unknown members that differ by a space or NUL only", add('" id":2,"name\\u0000":3')],
  ["an unknown member given twice", add('"a":1,"a":2')],
  ["id, name and tag given again further down", add('"a":{"id":2,"name":3,"tag":4}')],
  ["unknown members of every kind", add('"a":[1e999999999,true,false,null,"",{},[]],"":""')],
  ["20,000 unknown members", add(Array.from({ length: 20_000 }, (_, at) => `"${at}":1`).join())],
];

function add(members: string): string {
  return `{${members},"id":<1>,"name":"x"}`;
}

function nest(open: string, close: string, inner: string): string {
  return add(`"a":${open.repeat(DEEP)}${inner}${close.repeat(DEEP)}`);
}

const MALFORMED: readonly [what: string, body: string, message?: RegExp][] = [
  ["nothing at all", "", /end of the text/],
  ["a comma after the last member", '{"id":<1>,"name":"x",}'],
  ["an unclosed array of a million levels", "[".repeat(1_000_000)],
  ["two values on two lines", '{"id":<1>,"name":"x"}\n{"id":<2>,"name":"y"}\n'],
  ["an id with a leading zero", '{"id":01,"name":"x"}'],
  ["a line feed inside a string", '{"id":<1>,"name":"a\nb"}'],
  ["a comment", '{"id":<1>,"name":"x"} // a plant'],
  ["a UTF-8 BOM in front", '\ufeff{"id":<1>,"name":"x"}', /ufeff/],
  ["form fields", "id=1&name=x"],
  ["a long word that the message cuts", `{"id":1,"name":${"x".repeat(60_000)}}`, /^.{1,299}$/s],
];

/** A body with these bytes in place of a name. */
function nameOf(...bytes: readonly number[]): Buffer {
  return Buffer.from(`{"id":1,"name":"${String.fromCharCode(...bytes)}"}`, "latin1");
}

const NOT_UTF8: readonly [what: string, body: Buffer][] = [
  ["a byte that UTF-8 never has", nameOf(0xff)],
  ["an encoded surrogate", nameOf(0xed, 0xa0, 0x80)],
  ["an overlong slash", nameOf(0xc0, 0xaf)],
  ["invalid bytes in an unknown member", Buffer.from('{"id":1,"name":"x","a":"\xe9"}', "latin1")],
  ["UTF-16 with its BOM", Buffer.from('\ufeff{"id":1,"name":"x"}', "utf16le")],
];

/** JSON that is no plant, and the members that the message names. */
const NO_PLANTS: readonly [body: string, error: number, ...members: string[]][] = [
  ["7", 40005],
  ["null", 40005],
  ['[{"id":<1>,"name":"x"}]', 40005],
  ["{}", 40005, "id", "name"],
  ['{"__proto__":{"id":<1>,"name":"x"}}', 40005, "id", "name"],
  ['{"id":<1>,"name":null}', 40005, "name"],
  ['{"id":<1>,"name":{"toString":"x"}}', 40005, "name"],
  ['{"id":<1>,"name":"x","tag":null}', 40005, "tag"],
  ['{"Id":<1>,"NAME":"x"}', 40005, "id", "name"],
  ['{"id":1.5,"name":null,"tag":7}', 40005, "id", "name", "tag"],
  ['{"id":<1>,"id":<1>,"name":"x"}', 40004, "id"],
  ['{"name":"y","id":<1>,"name":"x"}', 40004, "name"],
  ['{"id":<1>,"name":"x","tag":"t","\\u0074ag":null}', 40004, "tag"],
  ['{"id":<1>,"id":<2>,"name":7}', 40004, "id", "name"],
];

const FERN = '{"id":<1>,"name":"Fern é","tag":"indoor"}';

const REPEATS = [
  ' { "tag":"indoor", "name" : "Fern é" , "id" : <1>}',
  '{"id":<1>0e-1,"name":"Fern \\u00E9","tag":"\\u0069ndoor"}',
  '{"id":<1>,"name":"Fern é","tag":"indoor","more":[1,2,3]}',
];

/** Plants that a careless store takes for one. */
const DIFFERENT: readonly [what: string, first: string, second: string][] = [
  ["names in another case", name("fern"), name("Fern")],
  ["names with a space at the end", name("x "), name("x")],
  ["an é and its two parts", name("é"), name("e\u0301")],
  ["no tag and an empty one", X, '{"id":<1>,"name":"x","tag":""}'],
  ["an empty tag and none", '{"id":<1>,"name":"x","tag":""}', X],
  ["two tags", FERN, '{"id":<1>,"name":"Fern é","tag":"outdoor"}'],
  ["a lone surrogate and the next", name("\\ud800"), name("\\ud801")],
  ["a lone surrogate and U+FFFD", name("\\ud800"), name("\\ufffd")],
  ["an emoji and its escape as text", name("🌱"), name("\\\\ud83c\\\\udf31")],
];

function name(text: string): string {
  return `{"id":<1>,"name":"${text}"}`;
}

export const PLANTS: readonly Case[] = [
  ...IDS.map(([spelling, id]) =>
    good(
      `the id ${spelling.slice(0, 30)} is stored as ${id}`,
      create(`{"id":${spelling},"name":"x"}`),
      { body: '{"name":"x"}', stores: `{"id":${id},"name":"x"}` },
    ),
  ),
  ...NO_IDS.map((id) =>
    bad(`${id} is no id`, 40005, create(`{"id":${id},"name":"x"}`), { message: naming("id") }),
  ),
  ...STRINGS.map(([what, sent, stored = sent]) =>
    good(`a name and a tag may be ${what}`, create(`{"id":<1>,"name":"${sent}","tag":"${sent}"}`), {
      stores: `{"id":<1>,"name":"${stored}","tag":"${stored}"}`,
    }),
  ),
  good("a lone surrogate is responded as its escape", create(name("\\ud800")), {
    body: '{"name":"\\ud800"}',
    stores: name("\\ud800"),
  }),
  ...SAME_PLANT.map(([what, body]) => good(`a body may have ${what}`, create(body))),
  ...MALFORMED.map(([what, body, message = /^invalid JSON|^body/]) =>
    bad(`a body with ${what} is not JSON`, 40003, create(body), { message }),
  ),
  ...NOT_UTF8.map(([what, body]) => bad(`${what} is not UTF-8`, 40002, create(body))),
  ...NO_PLANTS.map(([body, error, ...members]) =>
    bad(`${body} is refused for ${members.join(", ") || "what it is"}`, error, create(body), {
      message: naming(...members),
    }),
  ),
  ...REPEATS.map((body) =>
    good(`${body} repeats a plant: 200, and nothing is written`, [create(FERN), create(body)], {
      gets: [200, 200],
      body: '{"name":"Fern é","tag":"indoor"}',
      stores: FERN,
    }),
  ),
  ...DIFFERENT.map(([what, first, second]) =>
    good(
      `${what} conflict, and the first plant stays`,
      [first, second, first].map((body) => create(body)),
      {
        gets: [200, 40006, 200],
        stores: first,
      },
    ),
  ),
  good(
    "after a refused create its id is still free",
    [create(name('","id":<1>,"tag":"')), create('{"id":<1>}'), create(X)],
    { gets: [40004, 40005, 200] },
  ),
];
