/** The tables of the contract: bodies that are plants, and ids that are invalid. */

/** Spellings of ids, and the ids they are. */
export const INT64_IDS: readonly [spelling: string, id: string][] = [
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

/** Values that are not ids. */
export const OTHER_IDS = [
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

/** Valid names and tags. */
export const STRINGS: readonly [what: string, literal: string, value: string][] = [
  ["an empty string", '""', ""],
  ["nothing but spaces", '"   "', "   "],
  ["spaces and line ends at both ends", '" \\n\\tx\\r\\n "', " \n\tx\r\n "],
  ["a lone high surrogate", '"\\ud800"', "\ud800"],
  ["a lone low surrogate", '"x\\uDFFFy"', "x\udfffy"],
  ["surrogates in the wrong order", '"\\udc00\\ud800"', "\udc00\ud800"],
  ["NUL", '"a\\u0000b"', "a\0b"],
  ["every short escape", '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'],
  ["U+2028 and U+2029 unescaped", '"a\u2028b\u2029"', "a\u2028b\u2029"],
  ["DEL and C1 controls unescaped", '"\x7f\x80\x9f"', "\x7f\x80\x9f"],
  ["4-byte characters unescaped", '"🌱𝒳\u{10ffff}"', "🌱𝒳\u{10ffff}"],
  ["4-byte characters as escapes", '"\\ud83c\\udf31"', "🌱"],
  ["a BOM inside", '"\ufeffx"', "\ufeffx"],
  ["noncharacters", '"\uffff\u{1fffe}"', "\uffff\u{1fffe}"],
  ["letters with combining marks, not composed", '"e\u0301"', "e\u0301"],
  ["right-to-left overrides", '"\u202edlo\u202c"', "\u202edlo\u202c"],
  ["a name that JavaScript uses itself", '"__proto__"', "__proto__"],
  ["JSON", '"{\\"id\\":1}"', '{"id":1}'],
  ["900 KB of ASCII", `"${"x".repeat(900_000)}"`, "x".repeat(900_000)],
  ["900 KB of 3-byte characters", `"${"木".repeat(300_000)}"`, "木".repeat(300_000)],
];

const DEEP = 100_000;
export const PLAIN_LINE = '{"id":1,"name":"x"}';

/** Bodies of the plant 1, and the stored line if that is not the usual one. */
export const BODIES_OF_ONE_PLANT: readonly [what: string, body: string | Buffer, line?: string][] =
  [
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
