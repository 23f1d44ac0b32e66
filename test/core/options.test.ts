import assert from "node:assert/strict";
import { test } from "node:test";
import {
  assertNumbers,
  checkBasePath,
  checkOrigins,
  NUMBER_OPTIONS,
  type NumberOption,
} from "../../src/core/options.ts";

for (const [name, bounds] of Object.entries<NumberOption>(NUMBER_OPTIONS)) {
  const { default: byDefault, min, max } = bounds;

  test(`${name} may be a whole number from ${min} to ${max}`, () => {
    for (const value of [min, byDefault, max, undefined]) assertNumbers({ [name]: value });
    for (const value of [min - 1, max + 1, min + 0.5, -1, NaN, Infinity, -Infinity]) {
      const message = new RegExp(`^${name}: expected `);
      assert.throws(() => assertNumbers({ [name]: value }), { name: "RangeError", message });
    }
  });
}

test("a base path has a slash at its start, and loses one at its end", () => {
  const good = ["", "/garden", "/a/b", "/~x.y-z/%20@:"];
  for (const path of good) assert.equal(checkBasePath(path), path);
  for (const path of good) assert.equal(checkBasePath(`${path}/`), path);
  for (const path of ["garden", "//", "/a//b", "/a b", "/a?b", "/a#b", "/ä", "https://a"]) {
    assert.throws(() => checkBasePath(path), RangeError, path);
  }
});

test("an origin is written as a browser sends it", () => {
  const good = ["*", "https://app.example", "http://localhost:3000", "capacitor://localhost"];
  assert.deepEqual([...checkOrigins([...good, "*"])], good);
  for (const origin of ["", "app.example", "https://app.example/", "https://App.example"]) {
    assert.throws(() => checkOrigins([origin]), RangeError, origin);
  }
  for (const origin of ["https://app.example:443", "https://*.example", "https://a,https://b"]) {
    assert.throws(() => checkOrigins([origin]), RangeError, origin);
  }
});
