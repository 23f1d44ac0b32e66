/** How a command line becomes arguments and options, and what a wrong one is told. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  defineCommand,
  describeCommand,
  type Option,
  readArgs,
  UsageError,
} from "../../src/cli/command.ts";
import { ADMIN, EXPIRES, flag, LISTENER, numbers, text } from "../../src/cli/options.ts";

/** One option of each kind, and two arguments. */
const dig = defineCommand({
  name: "dig",
  summary: "dig a hole",
  arguments: ["ID", "[PLACE]"],
  readsVariables: true,
  options: {
    data: { ...text("DIR", "where"), defaultText: "./data" },
    ...numbers({ port: "where it listens" }),
    tool: { ...text("TOOL", "with what"), isRepeatable: true },
    json: flag("as JSON"),
    url: { ...text("URL", "of whom"), isSecret: true, parse: () => undefined },
  },
  run: async () => 0,
});

/** Sets the variables of one test, and removes every other variable of the program. */
function setVariables(t: TestContext, variables: Readonly<Record<string, string>> = {}): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  const others = Object.entries(before).filter(([name]) => !name.startsWith("PLANT_STORE_"));
  process.env = { ...Object.fromEntries(others), ...variables };
}

const READ: readonly [line: string, args: string[], options: object, variables?: object][] = [
  ["7", ["7"], {}],
  ["7 here", ["7", "here"], {}],
  ["--data /d 7", ["7"], { data: "/d" }],
  ["--data=-5 7", ["7"], { data: "-5" }],
  ["--data a 7 --data b", ["7"], { data: "b" }],
  ["7 --json --port 0", ["7"], { json: true, port: 0 }],
  ["--tool spade 7 --tool=-2", ["7"], { tool: "spade,-2" }],
  ["--json -- -9223372036854775808", ["-9223372036854775808"], { json: true }],
  ["7", ["7"], { port: 20, json: false }, { PORT: "20", JSON: "0" }],
  ["7 --port 30", ["7"], { port: 30 }, { PORT: "many" }],
  ["7", ["7"], {}, { PORT: "" }],
  ["7", ["7"], {}, { PORT: "tcp://10.0.0.7:8080", SERVICE_PORT: "1" }],
];
const DEFAULTS = { data: "./data", port: 8080, tool: undefined, json: undefined, url: undefined };

for (const [line, args, options, variables = {}] of READ) {
  const names = Object.entries(variables).map(([name, value]) => [`PLANT_STORE_${name}`, value]);
  test(`"${line}" with ${JSON.stringify(variables)} is read`, (t) => {
    setVariables(t, Object.fromEntries(names));
    const expected = { args, options: { ...DEFAULTS, ...options } };
    assert.deepEqual(readArgs(dig, line.split(" ")), expected);
  });
}

test("without readsVariables only the options that name the store have a variable", (t) => {
  const typed = defineCommand({ ...dig, readsVariables: false });
  setVariables(t, { PLANT_STORE_DATA: "/d", PLANT_STORE_PORT: "20", PLANT_STORE_JSON: "1" });
  assert.deepEqual(readArgs(typed, ["7"]).options, { ...DEFAULTS, data: "/d" });
  assert.doesNotMatch(describeCommand(typed), /PLANT_STORE_(?!DATA\b)/);
  assert.match(describeCommand(dig), /where it listens; default 8080 \[PLANT_STORE_PORT\]/);
});

/** The message has all of these texts. */
const WRONG: readonly [line: string, texts: string[], variables?: Record<string, string>][] = [
  ["", ["dig: expected ID [PLACE], got none; see plant-store dig --help"]],
  ["1 2 3", ['dig: expected ID [PLACE], got "1" "2" "3"; see']],
  ["-8", ["dig: ", "'-8'", 'Write "--" before']],
  ["7 --deep=secret", ["'--deep'", "; see plant-store dig --help"]],
  ["7 --__proto__", ["'--__proto__'"]],
  ["7 --no-json", ["'--no-json'"]],
  ["7 --json=true", ["'--json'"]],
  ["7 --data", ["'--data <value>'"]],
  ["7 --data --json", ["'--data'", "'--data=-XYZ'; see"]],
  ["7 --data=", ['--data: expected DIR, got ""']],
  ["7 --port 65536", ['--port: expected a whole number from 0 to 65535, got "65536"']],
  ["7", ['PLANT_STORE_JSON: expected 1, true, 0 or false, got "yes"'], { PLANT_STORE_JSON: "yes" }],
  ["7 --url postgresql://a:secret@b", ["--url: expected URL"]],
];

for (const [line, texts, variables] of WRONG) {
  test(`"${line}" is refused: ${texts.join(" … ")}`, (t) => {
    setVariables(t, variables);
    const argv = line.split(" ").filter(Boolean);
    assert.throws(
      () => readArgs(dig, argv),
      (error) => {
        assert.ok(error instanceof UsageError);
        for (const each of texts) assert.ok(error.message.includes(each), error.message);
        assert.doesNotMatch(error.message, /secret|\n/);
        return true;
      },
    );
  });
}

/** `undefined` if the parser refuses the text; it may throw, too. */
function tryParse<T>({ parse }: Option<T>, given: string): T | undefined {
  try {
    return parse(given);
  } catch {
    return undefined;
  }
}

const NOW = Date.parse("2026-01-01T00:00:00Z");

const VALUES: readonly [option: Option<unknown>, good: Record<string, unknown>, bad: string[]][] = [
  [
    EXPIRES,
    {
      "12h": NOW + 12 * 3_600_000,
      "90d": NOW + 90 * 86_400_000,
      "2026-01-01": NOW + 86_400_000 - 1,
      "2028-02-29": Date.UTC(2028, 2, 1) - 1,
    },
    [
      ...["", "90", "0d", "-5d", "1.5d", "1D", "1d ", "1d\n", "٣d", "never", "1893456000000"],
      ...["2025-12-31", "2030-1-1", "2030-13-01", "2030-02-31", "2027-02-29"],
    ],
  ],
  [
    numbers({ keep: "" }).keep,
    { 1: 1, "007": 7, 10000: 10_000 },
    ["0", "-1", "+1", "1.0", "1e1", "0x10", "", " 1", "1\n", "٣", "10001"],
  ],
  [
    ADMIN,
    {
      9180: { host: "127.0.0.1", port: 9180 },
      "localhost:0": { host: "localhost", port: 0 },
      "[::1]:9180": { host: "::1", port: 9180 },
    },
    ["", "::1:9180", "127.0.0.1:", ":9180", "70000", "a b:1", "/run/x"],
  ],
  [
    LISTENER.trustedProxy,
    {},
    ["", "proxy", "10.0.0.7,10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129", "fd00::/8,"],
  ],
];

for (const [option, good, bad] of VALUES) {
  test(`the value of an option is ${option.expected}`, (t) => {
    t.mock.method(Date, "now", () => NOW);
    for (const [given, value] of Object.entries(good)) {
      assert.deepEqual(option.parse(given), value, given);
    }
    for (const given of bad) assert.equal(tryParse(option, given), undefined, given);
  });
}
