import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  defineCommand,
  describeCommand,
  describeProgram,
  findCommand,
  readArgs,
  UsageError,
  variableOf,
} from "../../src/cli/command.ts";
import { integer, switchOption, textOption } from "../../src/cli/options.ts";

/** One option of each kind, and one argument. */
const dig = defineCommand({
  name: "dig",
  summary: "dig a hole",
  arguments: ["ID"],
  readsVariables: true,
  options: {
    data: { ...textOption("DIR", "where"), defaultText: "./data" },
    depthMax: { ...integer("N", "how deep", { min: 0, max: 99 }), defaultText: "10" },
    tool: { ...textOption("TOOL", "with what"), isRepeatable: true },
    json: switchOption("as JSON"),
  },
  run: async () => 0,
});
const rest = defineCommand({ ...dig, name: "rest", arguments: [] });
const bedAdd = defineCommand({ ...dig, name: "bed add" });
const bedRemove = defineCommand({ ...dig, name: "bed remove" });
const COMMANDS = [dig, rest, bedAdd, bedRemove];

const DEFAULTS = { data: "./data", depthMax: 10, tool: undefined, json: undefined };

/** Sets the variables of one test, and removes every other variable of the program. */
function setVariables(t: TestContext, variables: Readonly<Record<string, string>> = {}): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  const others = Object.entries(before).filter(([name]) => !name.startsWith("PLANT_STORE_"));
  process.env = { ...Object.fromEntries(others), ...variables };
}

const FOUND: readonly [words: string[], name: string, rest: string[]][] = [
  [["dig"], "dig", []],
  [["dig", "7", "--json"], "dig", ["7", "--json"]],
  [["dig", "bed", "add"], "dig", ["bed", "add"]],
  [["bed", "add", "7"], "bed add", ["7"]],
  [["bed", "remove", "--help"], "bed remove", ["--help"]],
  [["rest", "add"], "rest", ["add"]],
];

for (const [words, name, following] of FOUND) {
  test(`findCommand() finds "${name}" in front of "${words.join(" ")}"`, () => {
    const { command, rest } = findCommand(words, COMMANDS);
    assert.deepEqual([command.name, rest], [name, following]);
  });
}

/** What a user who typed no command is shown: the commands of the group, or else all. */
const NOT_FOUND: readonly [words: string[], expected: string, got: string][] = [
  [["dgi", "7"], "dig, rest, bed add, bed remove", "dgi"],
  [["--data=secret", "dig"], "dig, rest, bed add, bed remove", "--data"],
  [[""], "dig, rest, bed add, bed remove", ""],
  [["bed"], "bed add, bed remove", "bed"],
  [["bed", "water", "7"], "bed add, bed remove", "bed water"],
];

for (const [words, expected, got] of NOT_FOUND) {
  test(`findCommand() expects ${expected} in place of "${words.join(" ")}"`, () => {
    const message = `expected a command first, one of: ${expected}; got "${got}"`;
    assert.throws(() => findCommand(words, COMMANDS), { message });
  });
}

const READ: readonly [words: string[], id: string, options: object][] = [
  [["7"], "7", {}],
  [["7", "--data", "/d"], "7", { data: "/d" }],
  [["--data", "/d", "7"], "7", { data: "/d" }],
  [["--data=/d", "7"], "7", { data: "/d" }],
  [["--data=-5", "7"], "7", { data: "-5" }],
  [["--tool=-1", "--tool=-2", "7"], "7", { tool: "-1,-2" }],
  [["--data", "a", "7", "--data", "b"], "7", { data: "b" }],
  [["7", "--depth-max", "0"], "7", { depthMax: 0 }],
  [["7", "--json"], "7", { json: true }],
  [["7", "--tool", "spade"], "7", { tool: "spade" }],
  [["--tool", "spade", "7", "--tool=fork"], "7", { tool: "spade,fork" }],
  [["--json", "--", "-9223372036854775808"], "-9223372036854775808", { json: true }],
  [["--", "-7"], "-7", {}],
  [["--json", "--", "--data"], "--data", { json: true }],
  [[""], "", {}],
];

for (const [words, id, options] of READ) {
  test(`readArgs() reads "${words.join(" ")}"`, (t) => {
    setVariables(t);
    assert.deepEqual(readArgs(dig, words), {
      args: [id],
      options: { ...DEFAULTS, ...options },
      wantsHelp: false,
    });
  });
}

test("readArgs() lets an argument in brackets be left out, and no other", (t) => {
  setVariables(t);
  const plant = defineCommand({ ...dig, name: "plant", arguments: ["ID", "[PLACE]"] });
  for (const words of [["7"], ["7", "here"]]) {
    assert.deepEqual(readArgs(plant, words).args, words);
  }
  for (const words of [[], ["7", "here", "there"]]) {
    assert.throws(() => readArgs(plant, words), UsageError);
  }
});

test("readArgs() takes each word after -- as an argument of its own", (t) => {
  setVariables(t);
  assert.throws(() => readArgs(dig, ["--", "--data", "-5"]), UsageError);
});

for (const words of [["--help"], ["-h"], ["7", "--help"], ["1", "2", "3", "-h", "--data", "/d"]]) {
  test(`readArgs() reads "${words.join(" ")}" as a request for help`, (t) => {
    setVariables(t);
    assert.equal(readArgs(dig, words).wantsHelp, true);
  });
}

const SOURCES: readonly [words: string[], variable: string | undefined, depth: number][] = [
  [[], undefined, 10],
  [[], "", 10],
  [[], "20", 20],
  [["--depth-max", "30"], undefined, 30],
  [["--depth-max", "30"], "20", 30],
  [["--depth-max", "30"], "not a number", 30],
];

for (const [words, variable, depth] of SOURCES) {
  const given = `"${words.join(" ")}" with the variable ${JSON.stringify(variable)}`;
  test(`readArgs() takes the flag, or else the variable, or else the default: ${given} is ${depth}`, (t) => {
    setVariables(t, variable === undefined ? {} : { PLANT_STORE_DEPTH_MAX: variable });
    assert.equal(readArgs(rest, words).options.depthMax, depth);
  });
}

for (const [variable, value] of [
  ["1", true],
  ["true", true],
  ["0", false],
  ["false", false],
] as const) {
  test(`readArgs() reads a switch from a variable with the value ${variable}`, (t) => {
    setVariables(t, { PLANT_STORE_JSON: variable });
    assert.equal(readArgs(rest, []).options.json, value);
  });
}

test("without readsVariables only the options that name the store have a variable", (t) => {
  setVariables(t, { PLANT_STORE_DATA: "/d", PLANT_STORE_DEPTH_MAX: "20", PLANT_STORE_JSON: "1" });
  const typed = defineCommand({ ...rest, readsVariables: false });
  assert.deepEqual(readArgs(typed, []).options, { ...DEFAULTS, data: "/d" });
  assert.doesNotMatch(describeCommand(typed), /PLANT_STORE_(?!DATA\b)/);
});

test("the value of a secret option is not shown when it is wrong", (t) => {
  setVariables(t);
  const options = { url: { ...textOption("URL", ""), isSecret: true, parse: () => undefined } };
  const connect = defineCommand({ ...rest, options });
  const isShown = ({ message }: Error) => /--url/.test(message) && !/pw/.test(message);
  assert.throws(() => readArgs(connect, ["--url", "postgresql://a:pw@b"]), isShown);
});

test("the variable of an option is PLANT_STORE_ and its name in capitals", () => {
  assert.equal(variableOf("data"), "PLANT_STORE_DATA");
  assert.equal(variableOf("keepAliveTimeoutMs"), "PLANT_STORE_KEEP_ALIVE_TIMEOUT_MS");
});

/** The message must name the place at which the user can correct it. */
const REFUSED: readonly [words: string[], named: string][] = [
  [[], "ID"],
  [["7", "8"], '"8"'],
  [["-8"], '-- "-8"'],
  [["7", "--deep"], "--deep"],
  [["7", "--deep=3"], "--deep"],
  [["7", "--deep"], 'see "plant-store dig --help"'],
  [["7", "-x"], "-x"],
  [["7", "--__proto__"], "--__proto__"],
  [["7", "--constructor", "x"], "--constructor"],
  [["7", "--data"], "--data"],
  [["7", "--data", "--json"], "--data"],
  [["7", "--data="], "--data"],
  [["7", "--data", "-x"], "--data=-"],
  [["7", "--data", "a", "--data", "-x"], "--data"],
  [["7", "--depth-max=-1"], 'from 0 to 99, got "-1"'],
  [["7", "--json=true"], "--json"],
  [["7", "--no-json"], "--no-json"],
  [["--help=7"], "--help"],
  [["7", "--depth-max", "100"], "--depth-max"],
  [["7", "--depth-max", "many"], '"many"'],
];

for (const [words, named] of REFUSED) {
  test(`readArgs() refuses "${words.join(" ")}", naming ${named}`, (t) => {
    setVariables(t);
    assert.throws(
      () => readArgs(dig, words),
      (error) => {
        assert.ok(error instanceof UsageError);
        assert.ok(error.message.includes(named), error.message);
        return true;
      },
    );
  });
}

test("readArgs() names the variable that a bad value came from", (t) => {
  setVariables(t, { PLANT_STORE_DEPTH_MAX: "100" });
  assert.throws(
    () => readArgs(rest, []),
    (error) => error instanceof UsageError && error.message.includes("PLANT_STORE_DEPTH_MAX"),
  );
});

const digHelp = defineCommand({
  name: "dig",
  readsVariables: true,
  summary: "dig a hole",
  arguments: ["ID"],
  options: {
    depthMax: { ...textOption("N", "how deep"), defaultText: "10" },
    tool: textOption("TOOL", "with what"),
    json: switchOption("as JSON"),
  },
  details: "The hole stays open.",
  run: async () => 0,
});
const bedHelp = defineCommand({
  name: "bed add",
  summary: "add a bed",
  arguments: [],
  options: {},
  run: async () => 0,
});

test("describeProgram() shows each command on a line, with arguments and summary in columns", () => {
  const lines = describeProgram([digHelp, bedHelp]).split("\n");
  assert.ok(lines.includes("  dig ID   dig a hole"));
  assert.ok(lines.includes("  bed add  add a bed"));
});

test("describeProgram() explains every exit status", () => {
  const text = describeProgram([digHelp]);
  for (const status of [0, 1, 2, 3]) assert.match(text, new RegExp(`\\b${status} [a-z]`));
});

test("describeCommand() shows usage, summary and details", () => {
  const text = describeCommand(digHelp);
  assert.match(text, /^Usage: plant-store dig ID /);
  assert.match(text, /^dig a hole$/m);
  assert.match(text, /^The hole stays open\.$/m);
});

test("describeCommand() of a command without options shows no heading for them", () => {
  const text = describeCommand(defineCommand({ ...digHelp, options: {} }));
  assert.match(text, /^Usage: plant-store dig ID\n\ndig a hole\n\nThe hole stays open\.\n$/);
});

/** The line of the option and the one below it. */
const SHOWN: readonly [option: string, flag: string, below: RegExp][] = [
  ["depth-max", "  --depth-max N", /how deep.*\b10\b.*PLANT_STORE_DEPTH_MAX/],
  ["tool", "  --tool TOOL", /with what.*PLANT_STORE_TOOL/],
  ["json", "  --json", /as JSON.*PLANT_STORE_JSON/],
];

for (const [option, flag, below] of SHOWN) {
  test(`describeCommand() shows --${option} with its value, default and variable`, () => {
    const lines = describeCommand(digHelp).split("\n");
    const at = lines.indexOf(flag);
    assert.notEqual(at, -1);
    assert.match(lines[at + 1] ?? "", below);
  });
}

test("describeCommand() shows no default for an option that has none", () => {
  const lines = describeCommand(digHelp).split("\n");
  for (const flag of ["  --tool TOOL", "  --json"]) {
    const below = lines[lines.indexOf(flag) + 1] ?? "";
    assert.doesNotMatch(below, /default|undefined/);
  }
});

test("the help texts end with a newline and hold no control characters", () => {
  for (const text of [
    describeProgram([digHelp, bedHelp]),
    describeCommand(digHelp),
    describeCommand(bedHelp),
  ]) {
    assert.match(text, /[^\n]\n$/);
    assert.doesNotMatch(text, /[^\P{Cc}\n]/u);
  }
});
