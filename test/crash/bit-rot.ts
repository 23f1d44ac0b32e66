/**
 * Flips bits at random places of a log after a clean stop, and counts how many of them `verify`
 * and a start find.
 *
 *     node --import tsx test/crash/bit-rot.ts [--positions 1000] [--seed 1] [--lines 100000]
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { isSound, verifyLog } from "../../src/index.ts";
import { findFlip, makeLogAtRest, randomFlips } from "../support/bit-rot.ts";

const { values } = parseArgs({
  options: {
    positions: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    lines: { type: "string", default: "100000" },
  },
});
const [positions, seed, lines] = [values.positions, values.seed, values.lines].map((text) => {
  const number = Number(text);
  assert.ok(Number.isInteger(number) && number >= 1, `expected a positive integer, got "${text}"`);
  return number;
}) as [number, number, number];

const folder = mkdtempSync(join(tmpdir(), "plant-store-bit-rot-"));
try {
  const started = performance.now();
  const bytes = await makeLogAtRest(folder, lines);
  const found = { verify: 0, start: 0, either: 0 };
  for (const flip of randomFlips(bytes, positions, seed)) {
    const { byVerify, byStart } = await findFlip(folder, flip, true);
    if (byVerify) found.verify++;
    if (byStart === true) found.start++;
    if (byVerify || byStart === true) found.either++;
    else console.log(`missed: bit ${flip.bit} of byte ${flip.position}`);
  }
  assert.ok(isSound(await verifyLog(folder)), "the log is as it was at the end");
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.log(
    `${positions} flipped bits in ${lines} lines, ${bytes} bytes, seed ${seed}: ` +
      `${found.either} found (verify ${found.verify}, a start ${found.start}), ${seconds} s`,
  );
  process.exitCode = found.either === positions ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
