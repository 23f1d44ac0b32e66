/**
 * The long form of the power-cut model: every byte of a batch of six pages as
 * the place of the cut, of the zeros and of the garbage, and every set of its
 * pages missing, each with and without a checkpoint.
 *
 *     node --import tsx test/crash/power-cut.ts [--every N]
 */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  checkStart,
  cutAt,
  garbageFrom,
  makeLog,
  makeQuickFolder,
  pageCount,
  withoutPages,
  zeroedFrom,
} from "../support/power-cut.ts";

const { values } = parseArgs({ options: { every: { type: "string", default: "1" } } });
const every = Number(values.every);
assert.ok(Number.isInteger(every) && every >= 1, "--every: expected a positive integer");

const log = makeLog(4096 + 3000, [300, 900, 0, 2500, 6000, 40, 700, 700, 3000, 1, 1500, 4000, 350]);
const folder = makeQuickFolder();

async function tally(what: string, images: Iterable<Buffer>): Promise<void> {
  const started = performance.now();
  const counts = { starts: 0, refusals: 0, quarantines: 0 };
  for (const image of images) {
    for (const hasCheckpoint of [false, true]) {
      const verdict = await checkStart(folder, log, image, hasCheckpoint);
      if (verdict.refuses) counts.refusals++;
      else {
        counts.starts++;
        if (verdict.quarantined !== "") counts.quarantines++;
      }
    }
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.log(
    `${what}: ${counts.starts} starts (${counts.quarantines} with a quarantine), ` +
      `${counts.refusals} refusals, 0 acknowledged plants lost, ${seconds} s`,
  );
}

function* places(damage: (at: number) => Buffer): Generator<Buffer> {
  for (let at = log.durableBytes; at <= log.bytes.length; at += every) yield damage(at);
}

function* pageSets(): Generator<Buffer> {
  for (let pages = 0; pages < 2 ** pageCount(log); pages++) yield withoutPages(log, pages);
}

try {
  const batchBytes = log.bytes.length - log.durableBytes;
  console.log(`a batch of ${batchBytes} bytes on ${pageCount(log)} pages`);
  await tally(
    "cut",
    places((at) => cutAt(log, at)),
  );
  await tally(
    "zeros",
    places((at) => zeroedFrom(log, at)),
  );
  await tally(
    "garbage",
    places((at) => garbageFrom(log, at)),
  );
  await tally("pages missing", pageSets());
} finally {
  rmSync(folder, { recursive: true, force: true });
}
