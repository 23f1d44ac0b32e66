import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { describeSystemError, ioError } from "../../src/log/disk.ts";
import { makeFolder } from "../support/folders.ts";

test("describeSystemError() describes the error without the call and the path", (t) => {
  const missing = path.join(makeFolder(t), "none");
  const error = failureOf(() => fs.readFileSync(missing));
  const text = describeSystemError(error);
  assert.match(text, /\(ENOENT\)$/);
  assert.equal(text.includes(missing) || text.includes("open"), false);
});

test("describeSystemError() names a full quota, for which libuv has no name", () => {
  const error = Object.assign(new Error("Unknown system error -122, write"), { errno: -122 });
  assert.match(describeSystemError(error), /EDQUOT/);
});

test("describeSystemError() repeats the message of an error that is not the system's", () => {
  assert.equal(describeSystemError(new Error("short write")), "short write");
  assert.equal(describeSystemError("a string"), "a string");
  assert.equal(describeSystemError(undefined), "undefined");
});

test("ioError() has the action, the words of the system and the cause", (t) => {
  const cause = failureOf(() => fs.readdirSync(path.join(makeFolder(t), "none")));
  const error = ioError("Cannot look", cause);
  assert.equal(error.code, "io_error");
  assert.equal(error.cause, cause);
  assert.ok(error.message.startsWith("Cannot look: "));
  assert.ok(error.message.endsWith(describeSystemError(cause)));
});

function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("expected a failure");
}
