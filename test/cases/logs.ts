/**
 * What a log can look like to a program that opens it, and what each reader makes of it: data alone.
 * `test/store/logs.test.ts` runs every reader over each row, in a folder of its own.
 *
 * A column holds what the reader gives, or the code of its refusal, with line and byte where one is to blame
 * (`corruption 2:20`). A missing column is what a start does: it refuses, or leaves this log.
 */

export type Bytes = string | Buffer;

export interface LogCase {
  readonly says: string;
  /** The bytes of the log; `undefined`: there is none. */
  readonly log: Bytes | undefined;
  /** The log when its checkpoint was written; missing: there is no checkpoint. */
  readonly known?: Bytes;
  /** Other files of the folder, by what follows `plants.jsonl` in their names; `null`: a folder. */
  readonly beside?: Readonly<Record<string, string | null>>;
  /** The ids that a start serves, in their order. */
  readonly start: string;
  /** The log after the start, if that changes it. */
  readonly kept?: Bytes;
  /** What the start moves to quarantine. */
  readonly quarantined?: Bytes;
  /** How many plants `verify` counts, and what it finds besides. */
  readonly verify: string;
  /** What `repair` does, and the ids that a start serves afterwards. */
  readonly repair: string;
  /** The log after the repair, if that changes it. */
  readonly repaired?: Bytes;
  readonly export?: Bytes;
  /** The log of the copy. */
  readonly backup?: Bytes;
  readonly restore?: Bytes;
  /** How many lines of the log, as a file, are created, repeats, and refused. */
  readonly import: string;
}

const A = '{"id":1,"name":"a"}\n'; // 20 bytes
const B = '{"id":2,"name":"b","tag":"t"}\n'; // 30 bytes
const C = '{"id":3,"name":"c"}\n';
/** A with another name. */
const Z = '{"id":1,"name":"z"}\n';
const CRLF = (A + B).replaceAll("\n", "\r\n");

/** A record whose batch lost two sectors in a power cut, and what a start makes of it. */
const LOST = `{"id":3,"na${"\0".repeat(1024)}"}\n`;
const BLANK = `${" ".repeat(LOST.length - 1)}\n`;
/** Fills, after a lost record, all but the last record of the longest batch. */
const REST = `{"id":4,"name":"${"x".repeat(1024 * 1024 - LOST.length - 19)}"}\n`;

/** A line between two plants that is no plant to anybody. */
function bad(says: string, line: string): LogCase {
  return {
    says,
    log: Buffer.from(`${A}${line}\n${B}`, "latin1"),
    start: "corruption 2:20",
    verify: "damaged: 2, 1 damaged",
    repair: "rewrite: 1 2",
    repaired: A + B,
    import: "2 0 1",
  };
}

/** A line between two plants that is a plant, though no store writes it so. */
function odd(says: string, line: string): LogCase {
  return {
    says,
    log: `${A}${line}\n${B}`,
    start: "1 7 2",
    verify: "sound: 3",
    repair: "nothing: 1 7 2",
    import: "3 0 0",
  };
}

/** Bytes that the checkpoint knows otherwise, in lines that can be read. */
function changed(says: string, log: string, ids: string, verify: string, lines: string): LogCase {
  return {
    says,
    log,
    known: A + B,
    start: "corruption",
    verify: `damaged: ${verify}`,
    repair: `accept: ${ids}`,
    export: log,
    import: lines,
  };
}

/** What follows the last line feed and is no plant. */
function torn(says: string, rest: string, known?: string): LogCase {
  return {
    says,
    log: Buffer.from(A + rest, "latin1"),
    ...(known !== undefined && { known }),
    start: "1",
    kept: A,
    quarantined: Buffer.from(rest, "latin1"),
    verify: `sound: 1, ${rest.length} torn${known === undefined ? "" : ", matches"}`,
    repair: "nothing: 1",
    import: "1 0 1",
  };
}

export const LOGS: readonly LogCase[] = [
  {
    says: "is empty",
    log: "",
    start: "",
    verify: "sound: 0",
    repair: "nothing: ",
    import: "0 0 0",
  },
  {
    says: "is empty, as its checkpoint knows",
    log: "",
    known: "",
    start: "",
    verify: "sound: 0, matches",
    repair: "nothing: ",
    import: "0 0 0",
  },
  {
    says: "is missing, with no checkpoint",
    log: undefined,
    start: "",
    kept: "",
    verify: "io_error",
    repair: "io_error",
    export: "io_error",
    backup: "io_error",
    import: "io_error",
  },
  {
    says: "is missing, and its checkpoint knows plants",
    log: undefined,
    known: A,
    start: "corruption",
    verify: "corruption",
    repair: "start_empty: ",
    import: "io_error",
  },
  {
    says: "is missing, and its checkpoint knows an empty one",
    log: undefined,
    known: "",
    start: "",
    kept: "",
    verify: "io_error",
    repair: "start_empty: ",
    export: "io_error",
    backup: "io_error",
    import: "io_error",
  },
  {
    says: "has a folder in its place",
    log: undefined,
    beside: { "": null },
    start: "io_error",
    verify: "io_error",
    repair: "io_error",
    import: "io_error",
  },
  {
    says: "has no checkpoint",
    log: A + B,
    start: "1 2",
    verify: "sound: 2",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "is as its checkpoint knows",
    log: A + B,
    known: A + B,
    start: "1 2",
    verify: "sound: 2, matches",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "has lines that were added after its checkpoint, by a server or by hand",
    log: A + B + C,
    known: A,
    start: "1 2 3",
    verify: "sound: 3, matches",
    repair: "nothing: 1 2 3",
    import: "3 0 0",
  },
  {
    says: "has leftovers of killed programs beside it",
    log: A + B,
    known: A,
    beside: { ".checkpoint.new": "half", ".repaired": "half", ".quarantine-1": "older" },
    start: "1 2",
    verify: "sound: 2, matches",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "has an empty checkpoint",
    log: A + B,
    beside: { ".checkpoint": "" },
    start: "1 2",
    verify: "sound: 2",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "has a torn checkpoint",
    log: A + B,
    beside: { ".checkpoint": '{"bytes":50,"rec' },
    start: "1 2",
    verify: "sound: 2",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "has a folder in place of its checkpoint",
    log: A,
    beside: { ".checkpoint": null },
    start: "io_error",
    verify: "io_error",
    repair: "io_error",
    export: A,
    import: "1 0 0",
  },

  {
    says: "lacks its last line feed",
    log: (A + B).trimEnd(),
    known: A,
    start: "1 2",
    kept: A + B,
    verify: "sound: 1, 29 torn, matches",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "ends in a repeat without its line feed",
    log: A + A.trimEnd(),
    start: "1",
    kept: A + A,
    verify: "sound: 1, 1 repeated, 19 torn",
    repair: "nothing: 1",
    import: "1 1 0",
  },
  {
    says: "ends in another name for an id, without its line feed",
    log: A + Z.trimEnd(),
    start: "corruption 2:20",
    verify: "damaged: 1, 1 damaged, 19 torn",
    repair: "rewrite: 1",
    repaired: A,
    export: A + Z,
    import: "1 0 1",
  },
  {
    says: "ends in a carriage return",
    log: `${A.trimEnd()}\r`,
    start: "1",
    kept: `${A.trimEnd()}\r\n`,
    verify: "sound: 0, 20 torn",
    repair: "nothing: 1",
    import: "1 0 0",
  },
  {
    says: "ends in blanks",
    log: `${A} \t\r`,
    start: "1",
    kept: `${A} \t\r\n`,
    verify: "sound: 1, 3 torn",
    repair: "nothing: 1",
    export: A,
    backup: A,
    import: "1 0 0",
  },
  {
    says: "is one torn byte",
    log: "{",
    start: "",
    kept: "",
    quarantined: "{",
    verify: "sound: 0, 1 torn",
    repair: "nothing: ",
    import: "0 0 1",
  },
  torn("ends in a torn record", B.slice(0, 12)),
  torn("ends in a torn record after its checkpoint", B.slice(0, 12), A),
  torn("is torn within a character", '{"id":2,"name":"\xc3', A),
  torn("ends in NULs", "\0".repeat(1000), A),
  torn("ends in a record and NULs", B.trimEnd() + "\0".repeat(512), A),
  torn("ends in a hole that is longer than a batch", "\0".repeat(2 ** 20 + 7)),

  {
    says: "lost pages of its last batch",
    log: A + LOST + B,
    known: A,
    start: "1 2",
    kept: A + BLANK + B,
    quarantined: LOST,
    verify: "sound: 2, 1 mendable, matches",
    repair: "rewrite: 1 2",
    repaired: A + B,
    export: "corruption 2:20",
    backup: "corruption 2:20",
    import: "2 0 1",
  },
  {
    says: "lost pages of its last batch twice, and has a torn end",
    log: `${LOST}${A}${LOST}{"id"`,
    start: "1",
    kept: BLANK + A + BLANK,
    quarantined: `${LOST}${LOST}{"id"`,
    verify: "sound: 1, 2 mendable, 5 torn",
    repair: "rewrite: 1",
    repaired: `${A}{"id"`,
    export: "corruption 1:0",
    backup: "corruption 1:0",
    import: "1 0 3",
  },
  {
    says: "lost pages at the start of the longest batch",
    log: A + LOST + REST + B,
    start: "1 4 2",
    kept: A + BLANK + REST + B,
    quarantined: LOST,
    verify: "sound: 3, 1 mendable",
    repair: "rewrite: 1 4 2",
    repaired: A + REST + B,
    export: "corruption 2:20",
    backup: "corruption 2:20",
    import: "3 0 1",
  },
  {
    says: "lost pages farther from its end than the longest batch",
    log: A + LOST + REST.replace("x", "xx") + B,
    start: "corruption 2:20",
    verify: "damaged: 3, 1 damaged",
    repair: "rewrite: 1 4 2",
    repaired: A + REST.replace("x", "xx") + B,
    import: "3 0 1",
  },
  {
    says: "lost pages that its checkpoint knew whole",
    log: A + LOST,
    known: A + LOST.replaceAll("\0", "x"),
    start: "corruption 2:20",
    verify: "damaged: 1, 1 damaged, differs",
    repair: "rewrite: 1",
    repaired: A,
    import: "1 0 1",
  },
  {
    says: "lost pages before another name for an id",
    log: A + LOST + Z,
    start: "corruption 3:1058",
    verify: "damaged: 2, 1 damaged, 1 mendable",
    repair: "rewrite: 1",
    repaired: A,
    export: "corruption 2:20",
    backup: "corruption 2:20",
    import: "1 0 2",
  },

  changed("has a letter changed below its checkpoint", Z + B, "1 2", "2, differs", "2 0 0"),
  changed("has a line added at its start", C + A + B, "3 1 2", "3, differs", "3 0 0"),
  changed("has its lines in another order", B + A, "2 1", "2, differs", "2 0 0"),
  changed("was given CRLF below its checkpoint", CRLF, "1 2", "2, differs", "2 0 0"),
  changed("is cut below its checkpoint", A, "1", "1, shorter", "1 0 0"),
  changed("is cut to nothing below its checkpoint", "", "", "0, shorter", "0 0 0"),
  {
    ...changed("", A + B.slice(0, 12), "1", "1, 12 torn, shorter", "1 0 1"),
    says: "is cut within a line below its checkpoint",
    export: A,
  },
  {
    ...changed("", (A + B).trimEnd(), "1 2", "1, 29 torn, shorter", "2 0 0"),
    says: "lost the last line feed that its checkpoint knows",
    export: A + B,
    backup: A + B,
  },
  {
    ...changed("", `${(A + B).trimEnd()} `, "1 2", "1, 30 torn, differs", "2 0 0"),
    says: "has a space for the last byte that its checkpoint knows",
    export: `${(A + B).trimEnd()} \n`,
  },

  {
    says: "has CRLF",
    log: CRLF,
    start: "1 2",
    verify: "sound: 2",
    repair: "nothing: 1 2",
    import: "2 0 0",
  },
  {
    says: "has a byte order mark",
    log: `\ufeff${A}${B}`,
    start: "1 2",
    verify: "sound: 2",
    repair: "nothing: 1 2",
    export: A + B,
    import: "2 0 0",
  },
  {
    says: "has blank lines",
    log: `\n${A}\n \t\r\n${B}\n`,
    start: "1 2",
    verify: "sound: 2",
    repair: "nothing: 1 2",
    export: A + B,
    import: "2 0 0",
  },
  odd("has spaces in a line", ' { "id" : 7 ,\t"name" : "b" , "tag" : "t" } '),
  odd("has members in another order", '{"tag":"t","name":"b","id":7}'),
  odd("has unknown members", '{"id":7,"name":"a","soil":{"id":9},"__proto__":{"tag":"x"}}'),
  odd("has an id with a point", '{"id":7.0,"name":"a"}'),
  odd("has an id with a power", '{"id":0.7e1,"name":"a"}'),
  odd("has a name of escapes", '{"id":7,"name":"\\u0061\\/\\u007F"}'),
  odd("has an escape in the name of a member", '{"\\u0069d":7,"name":"a"}'),
  odd("has raw line separators in a name", '{"id":7,"name":"a\u2028\u2029\u0085"}'),
  odd("has lone surrogates", '{"id":7,"name":"\\ud83c\\udf35 \\ud83c"}'),
  {
    says: "has the smallest and the largest id",
    log: '{"id":-9223372036854775808,"name":"a"}\n{"id":9223372036854775807,"name":"b"}\n',
    start: "-9223372036854775808 9223372036854775807",
    verify: "sound: 2",
    repair: "nothing: -9223372036854775808 9223372036854775807",
    import: "2 0 0",
  },

  {
    says: "has a plant twice",
    log: A + B + A,
    start: "1 2",
    verify: "sound: 3, 1 repeated",
    repair: "nothing: 1 2",
    import: "2 1 0",
  },
  {
    says: "has a plant twice in two spellings",
    log: `${A}{"name":"a","id":1.0}\n`,
    start: "1",
    verify: "sound: 2, 1 repeated",
    repair: "nothing: 1",
    import: "1 1 0",
  },
  {
    says: "has an id with two names",
    log: A + B + Z,
    start: "corruption 3:50",
    verify: "damaged: 3, 1 damaged",
    repair: "rewrite: 1 2",
    repaired: A + B,
    export: A + B + Z,
    import: "2 0 1",
  },
  {
    says: "has an id with two names, and then the first again",
    log: A + Z + A,
    start: "corruption 2:20",
    verify: "damaged: 3, 1 repeated, 1 damaged",
    repair: "rewrite: 1",
    repaired: A + A,
    export: A + Z + A,
    import: "1 1 1",
  },
  {
    says: "has a plant with and without an empty tag",
    log: `${A}${A.replace("}", ',"tag":""}')}`,
    start: "corruption 2:20",
    verify: "damaged: 2, 1 damaged",
    repair: "rewrite: 1",
    repaired: A,
    export: `${A}${A.replace("}", ',"tag":""}')}`,
    import: "1 0 1",
  },

  bad("has a line that is no JSON", "x"),
  bad("has a line of a few NULs", "\0\0\0"),
  bad("has a record cut short within", '{"id":3,'),
  bad("has two records on one line", '{"id":3,"name":"c"}{"id":4,"name":"d"}'),
  bad("has an array", '[3,"a"]'),
  bad("has a plant without a name", '{"id":3}'),
  bad("has an id in quotes", '{"id":"3","name":"a"}'),
  bad("has a fraction for an id", '{"id":3.5,"name":"a"}'),
  bad("has an id beyond int64", '{"id":9223372036854775808,"name":"a"}'),
  bad("has a tag that is null", '{"id":3,"name":"a","tag":null}'),
  bad("has a member twice", '{"id":3,"id":3,"name":"a"}'),
  bad("has a byte that is not UTF-8", '{"id":3,"name":"\xff"}'),
  bad("has a byte order mark on a later line", '\xef\xbb\xbf{"id":3,"name":"c"}'),
  {
    says: "has only lines that cannot be read",
    log: "x\ny\n",
    start: "corruption 1:0",
    verify: "damaged: 0, 2 damaged",
    repair: "rewrite: ",
    repaired: "",
    import: "0 0 2",
  },
  {
    says: "has lines that cannot be read after a byte order mark, within and at its end",
    log: `\ufeff${A}x\n${B}[]\n`,
    start: "corruption 2:23",
    verify: "damaged: 2, 2 damaged",
    repair: "rewrite: 1 2",
    repaired: A + B,
    import: "2 0 2",
  },
  {
    says: "has a line that cannot be read, and a torn end",
    log: `${A}x\n{"id":3,"na`,
    known: A,
    start: "corruption 2:20",
    verify: "damaged: 1, 1 damaged, 11 torn, matches",
    repair: "rewrite: 1",
    repaired: `${A}{"id":3,"na`,
    import: "1 0 2",
  },
  {
    says: "has a line that cannot be read, and a plant without its line feed",
    log: `x\n${A}${B.trimEnd()}`,
    start: "corruption 1:0",
    verify: "damaged: 1, 1 damaged, 29 torn",
    repair: "rewrite: 1 2",
    repaired: A + B.trimEnd(),
    import: "2 0 1",
  },
];
