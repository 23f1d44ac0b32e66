/** The commands as processes: what they print, and how they end. */
import { RECORD_BYTES_MAX } from "../../src/core/options.ts";
import { type Row, testRows } from "./table.ts";

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const DAMAGED = { log: A, edited: `${A}x\u001b[2J\n${B}` };
const SHORTER = { log: A + B, edited: A };
const PLACE = /DATA\/plants\.jsonl\\*": line 2, byte offset 20: .*; restore .* backup, or .*repair/;
const SHORT = /DATA\/plants\.jsonl\\*": its 20 bytes .* 50 bytes; restore .*repair/;

testRows(
  "a damaged log is refused",
  ["serve", "verify", "export", "get 2", "backup NEW", "import -"].map((args): Row => {
    const damage = args === "serve" ? { ...SHORTER, stderr: SHORT } : { ...DAMAGED, stderr: PLACE };
    return { args, ...damage, status: 3, stdout: args === "export" ? A : "" };
  }),
);

const LINES = [
  '{"id":-5,"name":"Moss"}',
  '{"id":9007199254740993,"name":"","tag":""}',
  '{"id":-9223372036854775808,"name":"Aloë \\ud800 🌵"}',
  '{"id":8,"name":"\\u007f\\u202e\u009b31m"}',
];
const STORED = { log: `${LINES.join("\n")}\n` };

testRows("get and export print stored lines as they are", [
  ...["-5", "9007199254740993", "-9223372036854775808", "80e-1"].map((id, at): Row => {
    return { args: `get -- ${id}`, ...STORED, status: 0, stdout: `${LINES[at]}\n` };
  }),
  {
    args: "get 9007199254740992", // the second id, rounded to a double
    ...STORED,
    status: 1,
    stderr: "plant-store: no plant has the id 9007199254740992\n",
  },
  { args: "export", ...STORED, status: 0, stdout: STORED.log },
  { args: "export", log: A, edited: `${A}{"id":8,"na`, status: 0, stdout: A },
  { args: "export", log: "", status: 0 },
]);

testRows("verify and repair", [
  {
    args: "verify",
    log: A + B,
    status: 0,
    stdout: /^the log is sound.*: 2 plants, 50 bytes, 0 torn bytes\n$/,
  },
  { args: "verify --json", log: A, status: 0, stdout: '{"plants":1,"bytes":20,"tornBytes":0}\n' },
  { args: "repair", log: A, status: 0, stdout: "nothing to repair: 1 plant\n" },
  {
    args: "repair",
    ...DAMAGED,
    env: { PLANT_STORE_YES: "1" }, // no variable answers for a person
    status: 3,
    stderr: new RegExp(`^plant-store: nothing was changed: --yes .*\\n.*${PLACE.source}`),
  },
  {
    args: "repair --yes",
    ...DAMAGED,
    status: 0,
    stdout: "repaired: 2 plants, 1 line moved to plants.jsonl.quarantine\n",
    after: A + B,
  },
  { args: "repair --yes", ...SHORTER, status: 0, stdout: /^repaired: 1 plant, 0 lines moved/ },
]);

const counts = (created: number, stored: number, refused: number) =>
  `created ${created}, already stored ${stored}, refused ${refused}\n`;

testRows("import", [
  {
    args: "import -",
    log: "",
    stdin: `\ufeff${A}\nx\n${B}`,
    status: 3,
    stdout: counts(2, 0, 1),
    stderr: /^plant-store: refused line 3: invalid JSON .*\n$/,
    after: A + B,
  },
  {
    args: "import FILE",
    log: "",
    stdin: `${A}x\n${B}[]\n{"id":9,"name":"${"x".repeat(RECORD_BYTES_MAX - 18)}"}`,
    status: 3,
    stderr:
      /line 2: .*\n.*refused line 4: .*\n.*refused line 5: .*\n.*nothing was created, 3 lines refused: .* correct "FILE"/,
  },
  {
    args: "import FILE",
    log: A,
    stdin: `\ufeff${A}\n${B.trimEnd()}`,
    status: 0,
    stdout: counts(1, 1, 0),
    after: A + B,
  },
  {
    args: "import FILE",
    log: A,
    stdin: `{"id":1,"name":"z"}\n${B}`,
    status: 3,
    stdout: counts(1, 0, 1),
    stderr: /refused line 1: .* plant 1: /,
    after: A + B,
  },
  {
    args: "import -",
    log: "",
    stdin: "{}\n".repeat(23),
    status: 3,
    stdout: counts(0, 0, 23),
    stderr: /^(.*refused line .*\n){20}$/,
  },
  { args: "import /dev/zero", log: "", status: 3, stderr: /Expected one plant a line, got / },
  {
    args: "import NEW",
    log: "",
    status: 1,
    stderr: 'plant-store: Cannot read "NEW": no such file or directory (ENOENT)\n',
  },
]);

const noFolder =
  'plant-store: Cannot read "NEW": there is no such folder; name the data directory with --data\n';

testRows("a folder or a file that cannot be used is named, and nothing is made", [
  ...["verify", "export", "get 1", "repair", "backup DATA", "token list", "token revoke x"].map(
    (args): Row => ({ args: `${args} --data NEW`, status: 1, stderr: noFolder }),
  ),
  { args: "restore NEW", status: 1, stderr: /"NEW\/plants\.jsonl": no such file; expected/ },
  {
    args: "restore DATA",
    log: A,
    status: 1,
    stderr: /expected an empty folder, found "plants\.jsonl/,
  },
  ...["export", "token create x", "serve"].map((args): Row => {
    return {
      args: `${args} --data FILE`,
      stdin: "x",
      status: 1,
      stderr: /FILE.*(ENOTDIR|expected a folder, found a file)/,
    };
  }),
  { args: "serve --data /sys", status: 1, stderr: /"message":"[^"]*\\"\/sys\b/ },
  { args: "import - --data /sys/new", status: 1, stderr: /^plant-store: [^\n]*"\/sys\/new"/ },
  {
    args: "serve --host 192.0.2.1",
    status: 1,
    stderr: /"message":"listen .* 192\.0\.2\.1; see --host, --port"/,
    after: "",
  },
  { args: "token import FILE", stdin: A, status: 3, stderr: /"FILE": line 1, byte offset 0: / },
]);

const created = "2020-01-01T00:00:00.000Z";
const record = (at: number, name: string, more = {}) => {
  const token = { name, hash: `${at}a`.repeat(32), scopes: ["write"], createdAt: created, ...more };
  return `${JSON.stringify(token)}\n`;
};
const TOKENS = [
  record(1, "old", { expiresAt: "2020-02-01T00:00:00.000Z" }),
  record(2, "gone", { revokedAt: "2020-01-02T00:00:00.000Z" }),
  record(3, "gardener"),
].join("");
const table = `NAME      SCOPES  STATE    CREATED                   EXPIRES
old       write   expired  2020-01-01T00:00:00.000Z  2020-02-01T00:00:00.000Z
gone      write   revoked  2020-01-01T00:00:00.000Z  never
gardener  write   live     2020-01-01T00:00:00.000Z  never
`;

testRows("tokens", [
  { args: "token list", tokens: TOKENS, status: 0, stdout: table },
  {
    args: "token list --json",
    tokens: record(3, "gardener"),
    status: 0,
    stdout: `{"name":"gardener","scopes":["write"],"state":"live","created":"${created}","expires":null}\n`,
  },
  { args: "token create gardener", tokens: TOKENS, status: 1, stderr: /: .*"gardener"/ },
  {
    args: "token create new --expires 2999-12-31",
    tokens: TOKENS,
    status: 0,
    stdout: /^pst_[\w-]{43}\n$/,
  },
  ...["gardener", "old"].map(
    (name): Row => ({ args: `token revoke ${name}`, tokens: TOKENS, status: 0 }),
  ),
  { args: "token revoke gone", tokens: TOKENS, status: 1, stderr: /^plant-store: .*"gone"/ },
  { args: "token import FILE", stdin: TOKENS, status: 0, stdout: "imported 3, already there 0\n" },
  {
    args: "token import FILE",
    tokens: TOKENS,
    stdin: record(4, "gardener"),
    status: 1,
    stderr: /"gardener"/,
  },
  { args: "token list", tokens: "rubbish\n", status: 3, stderr: /tokens\.jsonl": line 1\b/ },
  {
    args: "serve",
    tokens: "rubbish\n",
    status: 3,
    stderr: /tokens\.jsonl\\": line 1\b/,
    after: "",
  },
]);
