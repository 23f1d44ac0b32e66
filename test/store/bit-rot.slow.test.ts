import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { isSound, verifyLog } from "../../src/index.ts";
import { type Flip, findFlip, makeLogAtRest, randomFlips } from "../support/bit-rot.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath } from "../support/stores.ts";

/** One of each kind of byte in a line near the middle of the log, and both ends of the log. */
function specialFlips(log: Buffer): Flip[] {
  const at = log.indexOf("\n", log.length / 2) + 1;
  const line = log.subarray(at, log.indexOf("\n", at) + 1).toString();
  const places = [
    line.indexOf("{"),
    line.indexOf('"'),
    line.indexOf(":"),
    line.indexOf(":") + 1, // a digit of the id
    line.indexOf("Fern"),
    line.indexOf(" "),
    line.indexOf("}"),
    line.indexOf("\n"),
  ].map((place) => at + place);
  return [0, ...places, log.length - 1].map((position, n) => ({ position, bit: n % 8 }));
}

test("a bit flipped anywhere in a log of a hundred thousand lines is found (short form)", async (t) => {
  const folder = makeFolder(t);
  const bytes = await makeLogAtRest(folder, 100_000);
  const flips = [
    ...specialFlips(readFileSync(logPath(folder))),
    ...randomFlips(bytes, 10, 20_260_101),
  ];
  for (const [n, flip] of flips.entries()) {
    const { byVerify, byStart } = await findFlip(folder, flip, n % 5 === 0);
    assert.equal(byVerify, true, JSON.stringify(flip));
    if (byStart !== undefined) assert.equal(byStart, true, JSON.stringify(flip));
  }
  assert.equal(isSound(await verifyLog(folder)), true, "flipped back, it is sound again");
});

test("every single bit of a small log at rest is found by verify and by a start", async (t) => {
  const folder = makeFolder(t);
  const bytes = await makeLogAtRest(folder, 3);
  for (let position = 0; position < bytes; position++) {
    const flip = { position, bit: (position * 3) % 8 };
    assert.deepEqual(await findFlip(folder, flip, true), { byVerify: true, byStart: true });
  }
});
