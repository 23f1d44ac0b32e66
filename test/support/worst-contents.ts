/**
 * Bodies of creates, each of the content that could cost most for its length: runs of one kind of
 * character, of escape, of white space, of brackets, of members.
 */

export interface Content {
  readonly what: string;
  readonly body: Buffer;
  /** Whether it is a plant; every other one is refused with 400. */
  readonly isPlant: boolean;
  /** Whether its line has escapes that JSON does not demand, or for halves of surrogate pairs. */
  readonly hasMoreEscapes: boolean;
}

/** Characters of a name, raw and as escapes: the table of names repeats each to the length that is asked for. */
const NAMES: readonly (readonly [what: string, text: string])[] = [
  ["plain letters", "a"],
  ["DEL", "\u007f"],
  ["U+0080", "\u0080"],
  ["U+0085", "\u0085"],
  ["U+2028", "\u2028"],
  ["U+0085, U+2028 and U+2029 by turns", "\u0085\u2028\u2029"],
  ["U+0085 between quotes", '\u0085\\"'],
  ["the byte order mark", "\ufeff"],
  ["U+202E", "\u202e"],
  ["two-byte characters", "é"],
  ["three-byte characters", "一"],
  ["four-byte characters", "\u{1f33f}"],
  ["a letter and a three-byte character", "a一"],
  ["escaped quotes", '\\"'],
  ["escaped backslashes", "\\\\"],
  ["escaped slashes", "\\/"],
  ["tabs", "\\t"],
  ["letters and tabs", "a\\t"],
  ["escaped NULs", "\\u0000"],
  ["escaped letters", "\\u0061"],
  ["escaped U+2028", "\\u2028"],
  ["escaped U+0085", "\\u0085"],
  ["escaped surrogate pairs", "\\ud83c\\udf3f"],
  ["lone surrogates", "\\ud800"],
  ["lone surrogates and letters", "\\udc00一"],
];

/** Members that are ignored, or that make the body no plant. `$` stands for a number that counts up. */
const MEMBERS: readonly (readonly [what: string, isPlant: boolean, member: string])[] = [
  ["small members", true, '"a":1,'],
  ["members without a name", true, '"":0,'],
  ["members of different names", true, '"$":1,'],
  ["members with strings", true, '"":"",'],
  ["members with an escaped name", true, '"\\n":1,'],
  ["members whose names look like id", true, '"\\u0069e":1,'],
  ["members whose names are escaped whole", true, '"\\u0061\\u0062":1,'],
  ["members with objects", true, '"":{},'],
  ["ids", false, '"id":1,'],
  ["escaped ids", false, '"\\u0069d":1,'],
  ["names", false, '"name":"",'],
];

/** Values of a member that is ignored: what opens it, what is repeated, what closes it. */
const VALUES: readonly (readonly [what: string, ...parts: string[]])[] = [
  ["numbers in an array", "[", "1,", "1]"],
  ["numbers with exponents", "[", "1e1,", "1]"],
  ["literals", "[", "null,", "1]"],
  ["empty arrays", "[", "[],", "1]"],
  ["empty objects", "[", "{},", "1]"],
  ["empty strings", "[", '"",', "1]"],
  ["escapes in strings", "[", '"\\n",', "1]"],
  ["members of an inner object", "{", '"":1,', '"":1}'],
  ["white space", "", " ", "1"],
  ["line feeds between values", "[", "1,\n", "1]"],
  ["digits", "", "1", "1"],
  ["zeros of a fraction", "0.", "0", "1"],
  ["nines of an exponent", "1e", "9", "9"],
];

/** Bodies that are no plant, refused at their end or close to it. */
const OTHERS: readonly (readonly [what: string, head: string, unit: string, tail?: string])[] = [
  ["open arrays", "", "["],
  ["open objects", "", '{"":'],
  ["an array of numbers", "[", "1,", "1]"],
  ["white space without a value", "", " "],
  ["a string without an end", '{"name":"', "a"],
  ["a string without an end, of three-byte characters", '{"name":"', "一"],
  ["a string with a control character at its end", '{"name":"', "一", '\n"}'],
  ["digits without an end", '{"id":', "1"],
  ["an id of many digits", '{"name":"","id":', "1", "}"],
  ["an id with a long exponent", '{"name":"","id":1e', "9", "}"],
  ["an id with zeros in front of its exponent", '{"name":"","id":1e', "0", "1.}"],
  ["an id with a long fraction", '{"name":"","id":1.', "0", "1}"],
  ["an id with zeros after a fraction", '{"name":"","id":0.', "0", "}"],
  ["a name that is an array", '{"id":1,"name":', "[", "0"],
];

const MORE_ESCAPES = /[\u0085\u2028\u2029]|\\u(?:0085|2028|d800|dc00)/;

/**
 * @param bytes the length of each body, about.
 * @param id of each plant.
 */
export function worstContents(bytes: number, id = 7): Content[] {
  const make = (what: string, isPlant: boolean, head: string, unit: string, tail = ""): Content => {
    const count = unit === "" ? 0 : Math.floor((bytes - 128) / Buffer.byteLength(unit));
    const text = (head + repeat(unit, count) + tail).replace('"id":7', `"id":${id}`);
    return { what, isPlant, hasMoreEscapes: MORE_ESCAPES.test(text), body: Buffer.from(text) };
  };
  return [
    ...NAMES.map(([what, text]) => make(`name: ${what}`, true, '{"id":7,"name":"', text, '"}')),
    ...NAMES.slice(0, 6).map(([what, text]) =>
      make(`tag, with spaces: ${what}`, true, '{ "id":7, "name": "\\t", "tag" : "', text, '" }'),
    ),
    ...MEMBERS.map(([what, isPlant, member]) =>
      make(what, isPlant, "{", member, '"id":7,"name":"x"}'),
    ),
    ...VALUES.map(([what, head = "", unit = "", tail = ""]) =>
      make(`value: ${what}`, true, `{"more":${head}`, unit, `${tail},"id":7,"name":"x"}`),
    ),
    ...[nested(bytes, "[", "]"), nested(bytes, '{"":', "}")].map(([what, value]) =>
      make(what, true, `{"more":${value},"id":7,"name":"x"}`, ""),
    ),
    ...OTHERS.map(([what, head, unit, tail]) =>
      make(what, what.endsWith("after a fraction"), head, unit, tail),
    ),
  ];
}

/** A value that is half as deep as it is long. */
function nested(bytes: number, open: string, close: string): [what: string, value: string] {
  const depth = Math.floor((bytes - 256) / (open.length + close.length));
  return [`value: nested ${open}${close}`, `${open.repeat(depth)}1${close.repeat(depth)}`];
}

function repeat(unit: string, count: number): string {
  if (!unit.includes("$")) return unit.repeat(count);
  return Array.from({ length: Math.floor(count / 2) }, (_, at) => unit.replace("$", `${at}`)).join(
    "",
  );
}
