/** How a command line becomes arguments and options, and what a wrong one is told. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  defineCommand,
  describeCommand,
  findCommand,
  type Option,
  readArgs,
  UsageError,
  variableOf,
} from "../../src/cli/command.ts";
import { EXPIRES, flag, number, TRUSTED_PROXY, text } from "../../src/cli/options.ts";

/** One option of each kind, and two arguments. */
const dig = defineCommand({
  name: "dig",
  summary: "dig a hole",
  arguments: ["ID", "[PLACE]"],
  readsVariables: true,
  options: {
    data: { ...text("DIR", "where"), defaultText: "./data" },
    depthMax: { ...number("N", "how deep", { min: 0, max: 99 }), defaultText: "10" },
    tool: { ...text("TOOL", "with what"), isRepeatable: true },
    json: flag("as JSON"),
    url: { ...text("URL", "of whom"), isSecret: true, parse: () => undefined },
  },
  run: async () => 0,
});
const typed = defineCommand({ ...dig, name: "bed add", readsVariables: false });

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
  ["7 --json --depth-max 0", ["7"], { json: true, depthMax: 0 }],
  ["--tool spade 7 --tool=-2", ["7"], { tool: "spade,-2" }],
  ["--json -- -9223372036854775808", ["-9223372036854775808"], { json: true }],
  ["-- --data", ["--data"], {}],
  ["7", ["7"], { depthMax: 20, json: false }, { DEPTH_MAX: "20", JSON: "0" }],
  ["7 --depth-max 30", ["7"], { depthMax: 30 }, { DEPTH_MAX: "many" }],
  ["7", ["7"], {}, { DEPTH_MAX: "" }],
  ["7", ["7"], {}, { DEPTH_MAX: "tcp://10.0.0.7:8080", DEPTH_MAX_SERVICE_PORT: "1" }],
];
const DEFAULTS = { data: "./data", depthMax: 10, tool: undefined, json: undefined, url: undefined };

for (const [line, args, options, variables = {}] of READ) {
  const names = Object.entries(variables).map(([name, value]) => [`PLANT_STORE_${name}`, value]);
  test(`"${line}" with ${JSON.stringify(variables)} is read`, (t) => {
    setVariables(t, Object.fromEntries(names));
    const expected = { args, options: { ...DEFAULTS, ...options }, wantsHelp: false };
    assert.deepEqual(readArgs(dig, line.split(" ")), expected);
  });
}

test("without readsVariables only the options that name the store have a variable", (t) => {
  setVariables(t, { PLANT_STORE_DATA: "/d", PLANT_STORE_DEPTH_MAX: "20", PLANT_STORE_JSON: "1" });
  assert.deepEqual(readArgs(typed, ["7"]).options, { ...DEFAULTS, data: "/d" });
  assert.doesNotMatch(describeCommand(typed), /PLANT_STORE_(?!DATA\b)/);
  assert.match(describeCommand(dig), /how deep; default 10 \[PLANT_STORE_DEPTH_MAX\]/);
  assert.equal(variableOf("keepAliveTimeoutMs"), "PLANT_STORE_KEEP_ALIVE_TIMEOUT_MS");
});

for (const line of ["--help", "-h", "7 --help", "1 2 3 -h --data /d --unknown"]) {
  test(`"${line}" asks for the help`, () => {
    assert.equal(readArgs(dig, line.split(" ")).wantsHelp, true);
  });
}

const SEE = "; see plant-store dig --help";
const WRONG: readonly [line: string, message: string, variables?: Record<string, string>][] = [
  ["", `dig: expected ID [PLACE], got none${SEE}`],
  ["1 2 3", `dig: expected ID [PLACE], got "1" "2" "3"${SEE}`],
  ["-8", `dig: unknown option "-8" (if that is the ID, write: plant-store dig -- -8)${SEE}`],
  ["7 --deep=secret", `dig: unknown option "--deep"${SEE}`],
  ["7 --__proto__", `dig: unknown option "--__proto__"${SEE}`],
  ["7 --no-json", `dig: unknown option "--no-json"${SEE}`],
  ["7 --json=true", `dig: --json takes no value${SEE}`],
  ["7 --help=7", `dig: unknown option "--help"${SEE}`],
  ["7 --data", `dig: --data: expected DIR after it${SEE}`],
  [
    "7 --data --json",
    `dig: --data: expected DIR, got "--json" (if that is the value, write --data=DIR)${SEE}`,
  ],
  ["7 --data=", '--data: expected DIR, got ""'],
  ["7 --depth-max 100", '--depth-max: expected a whole number from 0 to 99, got "100"'],
  [
    "7 --depth-max abc --depth-max 3",
    '--depth-max: expected a whole number from 0 to 99, got "abc"',
  ],
  ["7", 'PLANT_STORE_JSON: expected 1, true, 0 or false, got "yes"', { PLANT_STORE_JSON: "yes" }],
  ["7 --url postgresql://a:pw@b", "--url: expected URL"],
];

for (const [line, message, variables] of WRONG) {
  test(`"${line}" is told: ${message}`, (t) => {
    setVariables(t, variables);
    const argv = line.split(" ").filter(Boolean);
    assert.throws(
      () => readArgs(dig, argv),
      (error) => {
        assert.ok(error instanceof UsageError);
        assert.equal(error.message, message);
        return true;
      },
    );
  });
}

test("the first words name the command, and an unknown one is told which there are", () => {
  const find = (line: string) => findCommand(line.split(" "), [dig, typed]);
  assert.deepEqual(find("dig bed add"), { command: dig, rest: ["bed", "add"] });
  assert.deepEqual(find("bed add 7"), { command: typed, rest: ["7"] });
  for (const [line, message] of [
    ["dgi 7", 'expected a command (dig, bed add), got "dgi"'],
    ["--data=secret dig", 'expected a command (dig, bed add), got "--data"'],
    ["bed water 7", 'expected a command (bed add), got "bed water"'],
  ] as const) {
    assert.throws(() => find(line), { message });
  }
});

/** `undefined` if the parser refuses the text; it may throw, too. */
function tryParse<T>({ parse }: Option<T>, given: string): T | undefined {
  try {
    return parse(given);
  } catch {
    return undefined;
  }
}

const NOW = Date.parse("2026-01-01T00:00:00Z");
const EXPIRIES = [
  ["12h", NOW + 12 * 3_600_000],
  ["90d", NOW + 90 * 86_400_000],
  ["2026-01-01", NOW + 86_400_000 - 1],
  ["2028-02-29", Date.UTC(2028, 2, 1) - 1],
] as const;
const NO_EXPIRIES = [
  ...["", "90", "0d", "-5d", "1.5d", "1D", "1d ", "1d\n", "٣d", "never", "1893456000000"],
  ...["2025-12-31", "2030-1-1", "2030-13-01", "2030-02-31", "2027-02-29"],
];

test("an expiry is a number of days or hours, or a date in the future", (t) => {
  t.mock.method(Date, "now", () => NOW);
  for (const [given, expected] of EXPIRIES) assert.equal(EXPIRES.parse(given), expected);
  for (const given of NO_EXPIRIES) assert.equal(tryParse(EXPIRES, given), undefined, given);
});

test("a number has digits alone and is within its bounds", () => {
  const option = number("N", "", { min: 1, max: 999_999_999_999_999 });
  for (const good of ["1", "007", "999999999999999"])
    assert.equal(option.parse(good), Number(good));
  for (const bad of [
    "0",
    "-1",
    "+1",
    "1.0",
    "1e1",
    "0x10",
    "",
    " 1",
    "1\n",
    "٣",
    "1000000000000000",
  ]) {
    assert.equal(option.parse(bad), undefined, bad);
  }
});

test("trusted proxies are addresses and blocks, of both families", () => {
  const proxies = TRUSTED_PROXY.parse("192.0.2.7,10.0.0.0/8,fd00::/8");
  for (const [address, family, isTrusted] of [
    ["192.0.2.7", "ipv4", true],
    ["192.0.2.8", "ipv4", false],
    ["10.255.0.1", "ipv4", true],
    ["fdff::1", "ipv6", true],
    ["fe80::1", "ipv6", false],
  ] as const) {
    assert.equal(proxies?.check(address, family), isTrusted, address);
  }
  for (const bad of ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129"]) {
    assert.equal(tryParse(TRUSTED_PROXY, `10.0.0.7,${bad}`), undefined, bad);
  }
});
