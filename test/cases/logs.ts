/**
 * What a log can look like to a program that opens it, and what each reader makes of it: data alone, one character
 * a byte. `test/store/logs.test.ts` runs every reader over each row, in a folder of its own.
 */

export interface LogCase {
  readonly says: string;
  /** Missing: there is no log. */
  readonly log?: string;
  /** The log when its checkpoint was written; missing: there is no checkpoint. */
  readonly known?: string;
  /** Other files of the folder, by what follows `plants.jsonl` in their names; `null`: a folder. */
  readonly beside?: Readonly<Record<string, string | null>>;
  /** The code of a start's refusal, with line and byte where one is to blame; missing or empty: it serves. */
  readonly refused?: string;
  /** The log after a start; missing: as before. */
  readonly kept?: string;
  /** What the start moves to quarantine. */
  readonly cut?: string;
  /** What `verify` finds in a log that is served, besides its plants. */
  readonly verify?: string;
  /** How many lines `repair` leaves out, or the code of its refusal; missing: there is nothing to repair. */
  readonly repair?: string;
  /** The log after the repair; missing: as before. */
  readonly repaired?: string;
  /** What the repair moves to quarantine. */
  readonly left?: string;
  /** What is exported, if it is neither the log after a start, nor its refusal. */
  readonly exported?: string;
  /** The same of a backup, and of what it restores. */
  readonly copied?: string;
  /** How many lines of the log, as a file, are created, repeats, and refused; missing: all are created. */
  readonly imported?: string;
}

const A = '{"id":1,"name":"a"}\n'; // 20 bytes
const B = '{"id":2,"name":"b","tag":"t"}\n'; // 30 bytes
const C = '{"id":3,"name":"c"}\n';
const D = '{"id":7,"name":"d"}\n';
/** A with another name. */
const Z = '{"id":1,"name":"z"}\n';
/** A with a tag. */
const TAGGED = '{"id":1,"name":"a","tag":""}\n';
const CRLF = (A + B).replaceAll("\n", "\r\n");
const BAD = `${A}x\n`;
/** The byte order mark. */
const MARK = "\xef\xbb\xbf";
const MIB = 2 ** 20;

/** A record whose batch lost two sectors in a power cut. */
const LOST = `{"id":3,"na${"\0".repeat(1024)}"}\n`;
/** A plant that is nearly as long as a record may be. */
const LONG = `{"id":4,"name":"${"x".repeat(4 * MIB)}"}\n`;
const HOLE = "\0".repeat(6 * MIB);
const BLANKS = " ".repeat(6 * MIB);

/**
 * A log that a start refuses, naming a line.
 *
 * @param found the line and byte, and what an import does.
 * @param left what a repair moves to quarantine.
 */
function damaged(says: string, log: string, found: string, repaired: string, left = ""): LogCase {
  const [at, imported = ""] = found.split("; ");
  const repair = `${left.split("\n").length - 1} left out`;
  return { says, log, refused: `corruption ${at}`, repair, repaired, left, imported };
}

/** A line between two plants that is no plant to anybody. */
function bad(says: string, line: string, imported = "2 0 1"): LogCase {
  const found = `2:20; ${imported}`;
  return damaged(says, `${A}${line}\n${B}`, found, A + B, `${line}\n`);
}

/** A line between two plants that is a plant, though no store writes it so. */
function odd(says: string, line: string, usual = D): LogCase {
  const found = "2:20; 3 0 0";
  return damaged(says, `${A}${line}\n${B}`, found, A + usual + B);
}

/** Lines that can be read, other ones than the checkpoint knows. */
function changed(says: string, log: string, repaired = log): LogCase {
  const checks = { refused: "corruption" };
  const imported = `${repaired.split("\n").length - 1} 0 0`;
  return { says, log, known: A + B, ...checks, repair: "0 left out", repaired, imported };
}

/** What follows the last good line, and was never acknowledged. */
function torn(says: string, rest: string, imported: string, known?: string): LogCase {
  const cut = rest.endsWith("\n") ? rest : `${rest}\n`;
  const start = { kept: A, cut, verify: `1, ${rest.length} torn` };
  return { says, log: A + rest, ...(known !== undefined && { known }), ...start, imported };
}

/** A folder that every reader refuses. */
function refused(says: string, code: string, folder: Partial<LogCase>): LogCase {
  return { says, refused: code, verify: code, repair: code, imported: "", ...folder };
}

/** A log that was there. */
function gone(says: string, known: string): LogCase {
  return { ...refused(says, "corruption", { known }), repair: "0 left out", repaired: "" };
}

/** A checkpoint that cannot be read. */
function unknown(says: string, checkpoint: string): LogCase {
  const folder = { log: A + B, beside: { ".checkpoint": checkpoint }, imported: "2 0 0" };
  return { ...refused(says, "corruption", folder), repair: "0 left out" };
}

export const LOGS: readonly LogCase[] = [
  { says: "is empty", log: "" },
  { says: "is empty, as its checkpoint knows", log: "", known: "" },
  { says: "is as its checkpoint knows", log: A + B, known: A + B },
  { says: "has lines that were added after its checkpoint", log: A + B + C, known: A },
  { says: "has the leftovers of a killed repair beside it", log: A, beside: { ".new": "half" } },
  { says: "has half a checkpoint beside it", log: A, known: A, beside: { ".checkpoint.new": "{" } },
  { says: "has an older quarantine beside it", log: A + B, beside: { ".quarantine": "older\n" } },
  { says: "has a name of escapes", log: '{"id":7,"name":"\\u0061\\/\\u007F\\n"}\n' },
  { says: "has lone surrogates", log: '{"id":7,"name":"\\ud83c\\udf35 \\ud83c"}\n' },
  {
    says: "has the smallest and the largest id",
    log: '{"id":-9223372036854775808,"name":"a"}\n{"id":9223372036854775807,"name":"b"}\n',
  },
  {
    ...refused("is missing, with no checkpoint", "io_error", { kept: "" }),
    refused: "",
    exported: "io_error",
    copied: "io_error",
  },
  gone("is missing, and its checkpoint knows plants", A),
  gone("is missing, and its checkpoint knows an empty one", ""),
  refused("is missing after a killed restore", "corruption", { beside: { ".new": A } }),
  refused("is missing after a later kill", "corruption", { known: A, beside: { ".new": A } }),
  refused("has a folder in its place", "io_error", { beside: { "": null } }),
  refused("has a folder in place of its checkpoint", "io_error", {
    ...{ log: A, imported: "1 0 0", beside: { ".checkpoint": null } },
  }),
  unknown("has an empty checkpoint", ""),
  unknown("has a checkpoint with other members", '{"bytes":0,"records":0,"crc32":0}\n'),
  { ...unknown("is empty, with a checksum of something", '{"bytes":0,"crc32":1}\n'), log: "" },
  torn("lacks its last line feed", B.trimEnd(), "2 0 0", A),
  torn("ends in blanks", " \t\r", "1 0 0"),
  torn("ends in half a record after its checkpoint", B.slice(0, 12), "1 0 1", A),
  torn("ends within a character", '{"id":2,"name":"\xc3', "1 0 1", A),
  torn("ends in a record and NULs", B.trimEnd() + "\0".repeat(512), "1 0 1", A),
  torn("ends in a hole that is as long as a record", "\0".repeat(4 * MIB), "1 0 1"),
  torn("lost pages of its last batch", LOST + B, "2 0 1", A),
  torn("lost pages twice, and has a torn end", `${LOST}${B}${LOST}{"id"`, "2 0 3"),
  torn("lost pages before another plant of an id", LOST + Z, "1 0 2"),
  torn("lost pages before a long record", LOST + LONG, "2 0 1"),
  damaged(
    "lost pages farther from its end than what was in flight",
    `${A}${LOST}${LONG}${"\0".repeat(MIB)}`,
    "2:20; 2 0 2",
    A + LONG,
    `${LOST}${"\0".repeat(MIB)}\n`,
  ),
  {
    ...bad("lost pages that its checkpoint knew whole", LOST.trimEnd()),
    known: A + LOST.replaceAll("\0", "x"),
  },
  damaged("lost pages after a bad line", BAD + LOST, "2:20; 1 0 2", A, `x\n${LOST}`),
  bad("has a hole that is longer than what was in flight", HOLE, "invalid_json"),
  bad("has a line that is longer than a record", LONG.trimEnd() + LONG.trimEnd(), "invalid_json"),
  bad("has a plant before more blanks than a record", D.trimEnd() + BLANKS, "invalid_json"),
  damaged("ends in a long hole", A + HOLE, "2:20; invalid_json", A, `${HOLE}\n`),
  changed("has a letter changed below its checkpoint", Z + B),
  changed("has a line added at its start", C + A + B),
  changed("is cut below its checkpoint", A),
  changed("is cut to nothing below its checkpoint", ""),
  changed("lost a line feed that its checkpoint knows", A + B.trimEnd(), A + B),
  changed("has a space for its last line feed", `${A}${B.trimEnd()} `, A + B),
  {
    ...changed("is cut within a line below its checkpoint", `${A}{"id"`, A),
    repair: "1 left out",
    left: '{"id"\n',
    imported: "1 0 1",
  },

  damaged("has CRLF", CRLF, "1:0; 2 0 0", A + B),
  damaged("has a byte order mark", MARK + A + B, "1:0; 2 0 0", A + B),
  damaged("has blank lines", `${A}\n \t\r\n${B}\n`, "2:20; 2 0 0", A + B),
  odd("has a byte order mark on a later line", MARK + D.trimEnd()),
  odd("has spaces in a line", ' { "id" : 7 ,\t"name" : "d" } '),
  odd("has members in another order", '{"name":"d","id":7}'),
  odd("has unknown members", '{"id":7,"name":"d","soil":{"id":9}}'),
  odd("has an id with a point", '{"id":7.0,"name":"d"}'),
  odd("has an id of minus zero", '{"id":-0,"name":"d"}', '{"id":0,"name":"d"}\n'),
  odd("has an escape in the name of a member", '{"\\u0069d":7,"name":"d"}'),
  { ...bad("has a plant twice", A.trimEnd(), "2 1 0"), exported: A + A + B },
  bad("has a plant twice, the second time in another form", '{"name":"a","id":1.0}', "2 1 0"),
  { ...bad("has an id with two names", Z.trimEnd()), exported: A + Z + B },
  { ...bad("has a plant also with an empty tag", TAGGED.trimEnd()), exported: A + TAGGED + B },
  damaged("has a plant in two forms", `{"name":"a","id":1}\n${A}${B}`, "1:0; 2 1 0", A + B, A),
  bad("has a line that is no JSON", "x"),
  { ...bad("has NULs that its checkpoint knows", "\0\0"), known: `${A}\0\0\n${B}` },
  bad("has two records on one line", '{"id":3,"name":"c"}{"id":4,"name":"d"}'),
  bad("has a plant without a name", '{"id":3}'),
  bad("has an id beyond int64", '{"id":9223372036854775808,"name":"a"}'),
  bad("has a member twice", '{"id":3,"id":3,"name":"a"}'),
  bad("has a byte that is not UTF-8", '{"id":3,"name":"\xff"}'),
  damaged("has only bad lines", "x\ny\n", "1:0; 0 0 2", "", "x\ny\n"),
  damaged("has a bad line and a torn end", `${BAD}{`, "2:20; 1 0 2", A, "x\n{\n"),
  damaged("has no last line feed", `x\n${A}${B.trimEnd()}`, "1:0; 2 0 1", A + B, "x\n"),
];
