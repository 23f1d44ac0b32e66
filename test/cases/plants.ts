/** Which bodies are plants, what is stored and responded; repeats and conflicts. */
import { type Case, create, naming, X } from "./case.ts";

/** Spellings of ids, and the ids that they are. */
const IDS: readonly [spelling: string, id: string][] = [
  ["<1>", "<1>"],
  ["-<1>", "-<1>"],
  ["<1>.0", "<1>"],
  ["<1>0e-1", "<1>"],
  ["0.<1>E+7", "<1>"],
  ["-<1>00.0e-2", "-<1>"],
  ["<1>e11", "<1>00000000000"],
  [`<1>${"0".repeat(100_000)}e-100000`, "<1>"],
  ["0", "0"],
  ["-0", "0"],
  ["-0.0e5", "0"],
  ["0e999999999", "0"],
  ["0.000E-999999999999999999999", "0"],
  ["9007199254740991", "9007199254740991"],
  ["9007199254740992", "9007199254740992"],
  ["9007199254740993", "9007199254740993"],
  ["9007199254740993.000", "9007199254740993"],
  ["9007199254740994", "9007199254740994"],
  ["-9007199254740993", "-9007199254740993"],
  ["9223372036854774993", "9223372036854774993"],
  ["9223372036854775807", "9223372036854775807"],
  ["922337203685477580.7e1", "9223372036854775807"],
  ["-9223372036854775808", "-9223372036854775808"],
  ["-9223372036854775808.0", "-9223372036854775808"],
];

const NO_IDS = [
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

/** Any JSON string is a name and a tag: how it is sent, and as the log has it, if that differs. */
const STRINGS: readonly [what: string, sent: string, stored?: string][] = [
  ["an empty string", ""],
  ["nothing but spaces", "   "],
  ["spaces and line ends at both ends", " \\n\\tx\\r\\n "],
  ["a lone high surrogate", "\\ud800"],
  ["a lone low surrogate", "x\\uDFFFy", "x\\udfffy"],
  ["surrogates in the wrong order", "\\udc00\\ud800"],
  ["NUL", "a\\u0000b"],
  ["every short escape", '\\"\\\\\\/\\b\\f\\n\\r\\t', '\\"\\\\/\\b\\f\\n\\r\\t'],
  ["U+2028 and U+2029 unescaped", "a\u2028b\u2029"],
  ["DEL and C1 controls unescaped", "\x7f\x80\x9f"],
  ["4-byte characters unescaped", "🌱𝒳\u{10ffff}"],
  ["4-byte characters as escapes", "\\ud83c\\udf31", "🌱"],
  ["a BOM inside", "\ufeffx"],
  ["noncharacters", "\uffff\u{1fffe}"],
  ["letters with combining marks, not composed", "e\u0301"],
  ["right-to-left overrides", "\u202edlo\u202c"],
  ["a name that JavaScript uses itself", "__proto__"],
  ["JSON", '{\\"id\\":1}'],
  ["900 KB of ASCII", "x".repeat(900_000)],
  ["900 KB of 3-byte characters", "木".repeat(300_000)],
];

const DEEP = 100_000;

/** Bodies of the plant X, and the stored line if that is another. */
const SAME_PLANT: readonly [what: string, body: string, line?: string][] = [
  ["members in any order", '{"tag":"t","name":"x","id":<1>}', '{"id":<1>,"name":"x","tag":"t"}'],
  ["white space of every kind", ' \t\r\n{ "id" :\n<1> ,\t"name" : "x"\r} \n'],
  ["the name id as an escape", '{"\\u0069d":<1>,"name":"x"}'],
  ["every name as escapes", '{"\\u0069\\u0064":<1>,"\\u006e\\u0061\\u006D\\u0065":"x"}'],
  ["an unknown member of arrays 100,000 deep", nest("[", "]")],
  ["an unknown member of objects 100,000 deep", nest('{"id":', "}", "1")],
  ["an unknown member __proto__", add('"__proto__":{"tag":"t","id":2}')],
  ["an unknown member constructor", add('"constructor":{"name":"y"}')],
  ["unknown members toString and hasOwnProperty", add('"toString":1,"hasOwnProperty":2')],
  ["unknown members that differ in case only", add('"ID":"7","Name":null,"TAG":5')],
  ["unknown members that differ by a space or NUL only", add('" id":2,"name\\u0000":3')],
  ["an unknown member with the empty name", add('"":""')],
  ["an unknown member with a lone surrogate for its name", add('"\\ud800":1')],
  ["an unknown member given twice", add('"a":1,"a":2')],
  ["id, name and tag given again further down", add('"a":{"id":2,"name":3,"tag":4}')],
  ["an unknown number beyond every double", add('"a":[1e999999999,-1E-999999999,-0]')],
  ["unknown members of every other kind", add('"a":[true,false,null,"",{},[]]')],
  [
    "20,000 unknown members",
    add(Array.from({ length: 20_000 }, (_, at) => `"m ${at}":${at}`).join()),
  ],
];

function add(members: string): string {
  return `{${members},"id":<1>,"name":"x"}`;
}

function nest(open: string, close: string, inner = ""): string {
  return add(`"a":${open.repeat(DEEP)}${inner}${close.repeat(DEEP)}`);
}

const MALFORMED: readonly [what: string, body: string, message?: RegExp][] = [
  ["nothing at all", "", /empty/],
  ["nothing but white space", " \t\r\n"],
  ["a comma after the last member", '{"id":<1>,"name":"x",}'],
  ["a missing closing brace", '{"id":<1>,"name":"x"'],
  ["an unclosed array of a million levels", "[".repeat(1_000_000)],
  ["unclosed objects 100,000 deep", '{"a":'.repeat(100_000)],
  ["two values on two lines", '{"id":<1>,"name":"x"}\n{"id":<2>,"name":"y"}\n'],
  ["a NUL after the value", '{"id":<1>,"name":"x"}\0'],
  ["an id with a leading zero", '{"id":01,"name":"x"}'],
  ["an id with a plus sign", '{"id":+<1>,"name":"x"}'],
  ["an id in hexadecimal", '{"id":0x7,"name":"x"}'],
  ["an id with separators", '{"id":1_000,"name":"x"}'],
  ["an id that ends with its point", '{"id":<1>.,"name":"x"}'],
  ["an id that is not a number", '{"id":NaN,"name":"x"}'],
  ["an escape that JSON does not have", '{"id":<1>,"name":"\\x41"}'],
  ["half of an escape", '{"id":<1>,"name":"\\u00"}'],
  ["a line feed inside a string", '{"id":<1>,"name":"a\nb"}'],
  ["a tab inside a string", '{"id":<1>,"name":"a\tb"}'],
  ["single quotes", "{'id':<1>,'name':'x'}"],
  ["a comment", '{"id":<1>,"name":"x"} // a plant'],
  ["a form feed between members", '{"id":<1>,\f"name":"x"}'],
  ["a UTF-8 BOM in front", '\ufeff{"id":<1>,"name":"x"}', /ufeff/],
  ["a no-break space after the value", '{"id":<1>,"name":"x"}\u00a0'],
  ["a line separator in front", '\u2028{"id":<1>,"name":"x"}'],
  ["a closing brace too many", '{"id":<1>,"name":"x"}}'],
  ["two commas", '{"id":<1>,,"name":"x"}'],
  ["a word that is cut", '{"id":<1>,"name":"x","a":tru}'],
  ["form fields", "id=1&name=x"],
];

/** A body with these bytes in place of a name. */
function nameOf(...bytes: readonly number[]): Buffer {
  return Buffer.from(`{"id":1,"name":"${String.fromCharCode(...bytes)}"}`, "latin1");
}

const NOT_UTF8: readonly [what: string, body: Buffer][] = [
  ["a byte that UTF-8 never has", nameOf(0xff)],
  ["a character cut short by the end of the body", Buffer.from([0x22, 0xf0, 0x9f])],
  ["an encoded surrogate", nameOf(0xed, 0xa0, 0x80)],
  ["an overlong slash", nameOf(0xc0, 0xaf)],
  ["a character beyond U+10FFFF", nameOf(0xf4, 0x90, 0x80, 0x80)],
  ["Latin-1", Buffer.from('{"id":1,"name":"Gänseblümchen"}', "latin1")],
  ["invalid bytes in an unknown member", Buffer.from('{"id":1,"name":"x","a":"\xe9"}', "latin1")],
  ["UTF-16 with its BOM", Buffer.from('\ufeff{"id":1,"name":"x"}', "utf16le")],
  ["gzip", Buffer.from([0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00])],
];

/** JSON that is no plant, and the members that the message names. */
const NO_PLANTS: readonly [body: string, error: number, ...members: string[]][] = [
  ["[]", 40005],
  ['"x"', 40005],
  ["7", 40005],
  ["null", 40005],
  ['[{"id":<1>,"name":"x"}]', 40005],
  ["{}", 40005, "id", "name"],
  ['{"id":<1>}', 40005, "name"],
  ['{"name":"x"}', 40005, "id"],
  ['{"__proto__":{"id":<1>,"name":"x"}}', 40005, "id", "name"],
  ['{"id":<1>,"name":null}', 40005, "name"],
  ['{"id":<1>,"name":7}', 40005, "name"],
  ['{"id":<1>,"name":{"toString":"x"}}', 40005, "name"],
  ['{"id":<1>,"name":["x"]}', 40005, "name"],
  ['{"id":<1>,"name":"x","tag":null}', 40005, "tag"],
  ['{"id":<1>,"name":"x","tag":7}', 40005, "tag"],
  ['{"Id":<1>,"NAME":"x"}', 40005, "id", "name"],
  ['{"id":"7"}', 40005, "id", "name"],
  ['{"id":1.5,"name":null,"tag":7}', 40005, "id", "name", "tag"],
  ['{"id":<1>,"name":[],"tag":{}}', 40005, "name", "tag"],
  ['{"id":9223372036854775808,"name":"x","tag":null}', 40005, "id", "tag"],
  ['{"id":<1>,"id":<1>,"name":"x"}', 40004, "id"],
  ['{"id":<1>,"id":<2>,"name":"x"}', 40004, "id"],
  ['{"name":"y","id":<1>,"name":"x"}', 40004, "name"],
  ['{"id":<1>,"name":"x","tag":"t","\\u0074ag":null}', 40004, "tag"],
  ['{"id":<1>,"id":<2>,"name":7}', 40004, "id", "name"],
  ['{"tag":"a","tag":"b"}', 40004, "id", "name", "tag"],
];

const FERN = '{"id":<1>,"name":"Fern é","tag":"indoor"}';

const REPEATS = [
  FERN,
  '{"tag":"indoor","name":"Fern é","id":<1>}',
  ' { "id" : <1> , "name" : "Fern é" , "tag" : "indoor" } ',
  '{"id":<1>.0,"name":"Fern é","tag":"indoor"}',
  '{"id":<1>0e-1,"name":"Fern é","tag":"indoor"}',
  '{"id":<1>,"name":"Fern \\u00E9","tag":"\\u0069ndoor"}',
  '{"id":<1>,"name":"Fern é","tag":"indoor","more":[1,2,3]}',
];

const CONFLICTS = [
  '{"id":<1>,"name":"Fern","tag":"indoor"}',
  '{"id":<1>,"name":"fern é","tag":"indoor"}',
  '{"id":<1>,"name":"Fern é ","tag":"indoor"}',
  '{"id":<1>,"name":"Fern e\u0301","tag":"indoor"}',
  '{"id":<1>,"name":"","tag":"indoor"}',
  '{"id":<1>,"name":"Fern é","tag":"outdoor"}',
  '{"id":<1>,"name":"Fern é","tag":""}',
  '{"id":<1>,"name":"Fern é"}',
  '{"id":<1>,"name":"indoor","tag":"Fern é"}',
  '{"id":<1>.000,"name":"x"}',
];

/** Plants that a careless store takes for one. */
const DIFFERENT: readonly [what: string, first: string, second: string][] = [
  ["no tag and an empty one", X, '{"id":<1>,"name":"x","tag":""}'],
  ["an empty tag and none", '{"id":<1>,"name":"x","tag":""}', X],
  ["a lone surrogate and the next", name("\\ud800"), name("\\ud801")],
  ["a high surrogate and a low one", name("\\ud800"), name("\\udc00")],
  ["a lone surrogate and U+FFFD", name("\\ud800"), name("\\ufffd")],
  ["NUL and U+FFFD", name("\\u0000"), name("\\ufffd")],
  ["an emoji and its escape as text", name("🌱"), name("\\\\ud83c\\\\udf31")],
  ["a digit and its full-width form", name("7"), name("７")],
];

function name(text: string): string {
  return `{"id":<1>,"name":"${text}"}`;
}

const HUNDRED = Array.from({ length: 100 }, (_, at) => at);
const SIXTEEN = HUNDRED.slice(0, 16);

export const PLANTS: readonly Case[] = [
  ...IDS.map(([spelling, id]) => ({
    says: `the id ${spelling.slice(0, 30)} is stored as ${id.slice(0, 30)}`,
    send: create(`{"id":${spelling},"name":"x"}`),
    gets: 200,
    body: '{"name":"x"}',
    stores: `{"id":${id},"name":"x"}`,
  })),
  ...NO_IDS.map((id) => ({
    says: `${id} is no id`,
    send: create(`{"id":${id},"name":"x"}`),
    gets: 40005,
    message: naming("id"),
  })),
  ...STRINGS.flatMap(([what, sent, stored = sent]) => [
    {
      says: `a name may be ${what}`,
      send: create(`{"id":<1>,"name":"${sent}"}`),
      gets: 200,
      stores: `{"id":<1>,"name":"${stored}"}`,
    },
    {
      says: `a tag may be ${what}`,
      send: create(`{"id":<1>,"name":"x","tag":"${sent}"}`),
      gets: 200,
      stores: `{"id":<1>,"name":"x","tag":"${stored}"}`,
    },
  ]),
  {
    says: "a lone surrogate is responded as its escape, because UTF-8 cannot contain it",
    send: create('{"id":<1>,"name":"\\ud800","tag":"\\udfff"}'),
    gets: 200,
    body: '{"name":"\\ud800","tag":"\\udfff"}',
    stores: '{"id":<1>,"name":"\\ud800","tag":"\\udfff"}',
  },
  ...SAME_PLANT.map(([what, body, line = X]) => ({
    says: `a body may have ${what}`,
    send: create(body),
    gets: 200,
    stores: line,
  })),
  ...MALFORMED.map(([what, body, message = /^invalid JSON|^body/]) => ({
    says: `a body with ${what} is not JSON`,
    send: create(body),
    gets: 40003,
    message,
  })),
  {
    says: "the message about malformed JSON does not repeat a long body",
    send: create(`{"id":1,"name":${"secret".repeat(10_000)}}`),
    gets: 40003,
    message: /^.{1,299}$/s,
  },
  ...NOT_UTF8.map(([what, body]) => ({
    says: `a body with ${what} is not UTF-8`,
    send: create(body),
    gets: 40002,
  })),
  ...NO_PLANTS.map(([body, gets, ...members]) => ({
    says: `${body} is refused for ${members.join(", ") || "what it is"}`,
    send: create(body),
    gets,
    message: naming(...members),
  })),
  ...REPEATS.map((body) => ({
    says: `${body} repeats a plant: 200, and nothing is written`,
    send: [create(FERN), create(body)],
    gets: [200, 200],
    body: '{"name":"Fern é","tag":"indoor"}',
    stores: FERN,
  })),
  ...CONFLICTS.map((body) => ({
    says: `${body} conflicts, and the first plant stays`,
    send: [create(FERN), create(body), create(FERN)],
    gets: [200, 40006, 200],
    stores: FERN,
  })),
  ...DIFFERENT.map(([what, first, second]) => ({
    says: `${what} are different names or tags`,
    send: [create(first), create(second)],
    gets: [200, 40006],
    stores: first,
  })),
  {
    says: "after a refused create its id is still free",
    send: [
      create('{"id":<1>,"name":null}'),
      create('{"id":<1>,"id":<1>,"name":"x"}'),
      create('{"id":<1>,"name":"y"}'),
    ],
    gets: [40005, 40004, 200],
    stores: '{"id":<1>,"name":"y"}',
  },
  {
    says: "a hundred identical creates at once are a hundred 200s and one record",
    send: HUNDRED.map(() => create(X)),
    how: "at once",
    gets: HUNDRED.map(() => 200),
    stores: X,
  },
  {
    says: "of a hundred plants of one id at once, one is stored",
    send: HUNDRED.map((at) => create(`{"id":<1>,"name":"name ${at}"}`)),
    how: "at once",
    gets: HUNDRED.map((at) => (at === 0 ? 200 : 40006)),
    stores: /^\{"id":<1>,"name":"name \d+"\}$/,
  },
  {
    says: "sixteen creates in one packet are stored in order",
    send: SIXTEEN.map((at) => create(`{"id":<1>${at + 10},"name":"x"}`)),
    how: "pipelined",
    gets: SIXTEEN.map(() => 200),
    stores: SIXTEEN.map((at) => `{"id":<1>${at + 10},"name":"x"}`),
  },
];
