/** The checks of the crash runs find what they look for. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { checkLog } from "./log-check.ts";
import { PlantBook } from "./plant-book.ts";

test("checkLog() counts lost plants, plants that occur twice, and lines that are not plants", (t) => {
  const book = new PlantBook({ hasLongNames: true });
  for (let plant = 0; plant < 5; plant++) {
    book.take();
    if (plant < 4) book.acknowledge(plant); // the last one may be there or not
  }
  const check = (...lines: string[]) => {
    const path = join(makeFolder(t), "plants.jsonl");
    writeFileSync(path, lines.map((line) => `${line}\n`).join(""));
    const { lines: count, lost, duplicated, unknownLines } = checkLog(path, book);
    return [count, lost, duplicated, unknownLines];
  };
  const [a = "", b = "", c = "", d = "", e = ""] = [0, 1, 2, 3, 4].map((plant) => book.line(plant));
  assert.deepEqual(check(a, b, c, d), [4, 0, 0, 0]);
  assert.deepEqual(check(d, e, c, "   ", b, a), [5, 0, 0, 0]);
  assert.deepEqual(check(a, b, d), [3, 1, 0, 0]);
  assert.deepEqual(check(a, b, c, d, b), [5, 0, 1, 0]);
  assert.deepEqual(check(a, b, c, d.slice(0, -1)), [4, 1, 0, 1]);
  assert.deepEqual(check(a, b, c, d.replace("Fern", "Moss")), [4, 1, 0, 1]);
  assert.deepEqual(check(a, b, c, d, '{"id":1,"name":"a stranger"}'), [5, 0, 0, 1]);
});
