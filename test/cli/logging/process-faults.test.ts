/** How a fault is named in one line, whatever was thrown. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nameFault } from "../../../src/cli/logging/process-faults.ts";

const FAULTS: readonly [says: string, fault: unknown, name: string][] = [
  ["an error", new TypeError("not a plant"), "TypeError: not a plant"],
  ["an error without a message", new RangeError(), "RangeError: "],
  ["a text", "some text", "some text"],
  ["nothing", undefined, "undefined"],
];

for (const [says, fault, name] of FAULTS) {
  test(`${says} that was thrown is named`, () => assert.equal(nameFault(fault), name));
}

const UNNAMED = "something that cannot be named";
const NAMELESS: readonly [says: string, fault: unknown][] = [
  ["an object that no text can be made of", Object.create(null)],
  [
    "an error whose message cannot be read",
    Object.defineProperty(new Error(), "message", {
      get() {
        throw new Error("and another");
      },
    }),
  ],
];

for (const [says, fault] of NAMELESS) {
  test(`${says} is told all the same`, () => assert.equal(nameFault(fault), UNNAMED));
}
