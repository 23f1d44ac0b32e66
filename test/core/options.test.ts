import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  assertNumber,
  type DefaultedName,
  NUMBER_OPTIONS,
  type NumberOption,
  type NumberOptionName,
  readNumber,
} from "../../src/core/options.ts";

const NAMES = Object.keys(NUMBER_OPTIONS) as NumberOptionName[];

for (const name of NAMES) {
  const { default: byDefault, min, max }: NumberOption = NUMBER_OPTIONS[name];

  test(`${name} is ${byDefault ?? "not fixed"} by default, and accepts whole numbers from ${min} to ${max}`, () => {
    const read = (value: number) => {
      assertNumber(name, value);
      return value;
    };
    if (byDefault !== undefined) {
      const defaulted = name as DefaultedName;
      assert.equal(readNumber({}, defaulted), byDefault);
      assert.equal(readNumber({ [name]: undefined }, defaulted), byDefault);
      assert.equal(readNumber({ [name]: max }, defaulted), max);
    }
    for (const value of [min, byDefault ?? min, max]) assert.equal(read(value), value);
    for (const value of [min - 1, max + 1, min + 0.5, -1, NaN, Infinity, -Infinity]) {
      assert.throws(() => read(value), { name: "RangeError", message: namedBy(name) });
    }
  });
}

const PAGE = readFileSync(new URL("../../docs/command-line.md", import.meta.url), "utf8");
/** The numbers of `serve` besides its port. */
const IN_TABLE: readonly NumberOptionName[] = [
  "bodyBytesMax",
  "requestTimeoutMs",
  "keepAliveTimeoutMs",
  "databaseDeadlineMs",
  "databaseConnections",
  "drainTimeoutMs",
];

for (const name of IN_TABLE) {
  const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

  test(`the table of limits in the documentation names ${flag} with its default`, () => {
    const row = PAGE.split("\n").find((line) => line.startsWith("|") && line.includes(flag));
    const [, , byDefault = ""] = row?.split("|") ?? [];
    const figure = asPeopleWrite(name);
    assert.ok(byDefault.includes(figure), `expected "${figure}" in "${byDefault}"`);
  });
}

function namedBy(name: string): RegExp {
  return new RegExp(`^${name}: expected `);
}

/** A number as the documentation writes it: `1 MiB`, `10 s`, `16,384`. */
function asPeopleWrite(name: NumberOptionName): string {
  const { default: figure = 0 }: NumberOption = NUMBER_OPTIONS[name];
  if (name.endsWith("Ms")) return `${figure / 1000} s`;
  if (!name.endsWith("BytesMax")) return figure.toLocaleString("en-GB");
  return figure >= 1024 * 1024 ? `${figure / 1024 / 1024} MiB` : `${figure / 1024} KiB`;
}
