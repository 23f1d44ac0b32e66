import assert from "node:assert/strict";
import { test } from "node:test";
import { defineCommand } from "../../src/cli/command.ts";
import { describeCommand, describeProgram } from "../../src/cli/help.ts";
import { parseSwitch, parseText } from "../../src/cli/options.ts";

const dig = defineCommand({
  name: "dig",
  summary: "dig a hole",
  arguments: [{ placeholder: "ID" }],
  options: {
    "depth-max": { placeholder: "N", help: "how deep", defaultText: "10", parse: parseText },
    tool: { placeholder: "TOOL", help: "with what", parse: parseText },
    json: { help: "as JSON", parse: parseSwitch },
  },
  details: "The hole stays open.",
  run: async () => 0,
});
const bedAdd = defineCommand({
  name: "bed add",
  summary: "add a bed",
  arguments: [],
  options: {},
  run: async () => 0,
});

test("describeProgram() shows each command on a line, with arguments and summary in columns", () => {
  const lines = describeProgram([dig, bedAdd]).split("\n");
  assert.ok(lines.includes("  dig ID   dig a hole"));
  assert.ok(lines.includes("  bed add  add a bed"));
});

test("describeProgram() says what every exit status means", () => {
  const text = describeProgram([dig]);
  for (const status of [0, 1, 2, 3]) assert.match(text, new RegExp(`\\b${status} [a-z]`));
});

test("describeCommand() shows usage, summary and details", () => {
  const text = describeCommand(dig);
  assert.match(text, /^Usage: plant-store dig ID /);
  assert.match(text, /^dig a hole$/m);
  assert.match(text, /^The hole stays open\.$/m);
});

/** What stands on the line of the option and on the one below it. */
const OPTIONS: readonly [option: string, flag: string, below: RegExp][] = [
  ["depth-max", "  --depth-max N", /how deep.*\b10\b.*PLANT_STORE_DEPTH_MAX/],
  ["tool", "  --tool TOOL", /with what.*PLANT_STORE_TOOL/],
  ["json", "  --json", /as JSON.*PLANT_STORE_JSON/],
];

for (const [option, flag, below] of OPTIONS) {
  test(`describeCommand() shows --${option} with its value, default and variable`, () => {
    const lines = describeCommand(dig).split("\n");
    const at = lines.indexOf(flag);
    assert.notEqual(at, -1);
    assert.match(lines[at + 1] ?? "", below);
  });
}

test("describeCommand() shows no default where there is none", () => {
  const lines = describeCommand(dig).split("\n");
  for (const flag of ["  --tool TOOL", "  --json"]) {
    const below = lines[lines.indexOf(flag) + 1] ?? "";
    assert.doesNotMatch(below, /default|undefined/);
  }
});

test("the texts end with a newline and hold nothing that steers a terminal", () => {
  for (const text of [
    describeProgram([dig, bedAdd]),
    describeCommand(dig),
    describeCommand(bedAdd),
  ]) {
    assert.match(text, /[^\n]\n$/);
    assert.doesNotMatch(text, /[^\P{Cc}\n]/u);
  }
});
