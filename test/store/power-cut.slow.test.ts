import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { type TestContext, test } from "node:test";
import {
  borders,
  checkStart,
  cutAt,
  garbageFrom,
  judge,
  makeLog,
  makeQuickFolder,
  type PowerCutLog,
  pageCount,
  type Verdict,
  withoutPages,
  zeroedFrom,
} from "../support/power-cut.ts";
import { collectWarnings } from "../support/watch.ts";

/** A short batch that crosses the border of a page, so that every byte of it can be tried. */
const SHORT = makeLog(4096 - 60, [0, 50]);
/** A batch of six pages that starts within a page; one record spans pages, and one is tiny. */
const LONG = makeLog(
  4096 + 3000,
  [300, 900, 0, 2500, 6000, 40, 700, 700, 3000, 1, 1500, 4000, 350],
);

/** Which offsets of the long batch are tried here; `test/crash/power-cut.ts` tries every one. */
const EVERY_NTH = 1999;

function somePlaces(log: PowerCutLog): number[] {
  const places = new Set(borders(log).filter((_, n) => n % 5 === 0));
  for (let at = log.durableBytes; at <= log.bytes.length; at += EVERY_NTH) places.add(at);
  return [...places];
}

function everyPlace({ durableBytes, bytes }: PowerCutLog): number[] {
  return Array.from({ length: bytes.length - durableBytes + 1 }, (_, n) => durableBytes + n);
}

function makeFolder(t: TestContext): string {
  const folder = makeQuickFolder();
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function count(verdicts: readonly Verdict[], what: (verdict: Verdict) => boolean): number {
  return verdicts.filter(what).length;
}

const isRefusal = ({ refuses }: Verdict) => refuses;
const isTaken = (verdict: Verdict) => !verdict.refuses && verdict.quarantined !== "";

const LOGS: readonly [says: string, log: PowerCutLog, places: readonly number[]][] = [
  ["any byte of a short batch", SHORT, everyPlace(SHORT)],
  ["the borders and some bytes of a batch of six pages", LONG, somePlaces(LONG)],
];

for (const [says, log, places] of LOGS) {
  // Every second case has a checkpoint; the second round swaps them.
  const hasCheckpoint = (n: number, place: number) => (n + Math.floor(place / 2)) % 2 === 0;

  test(`a log cut at ${says} starts, and loses nothing that was acknowledged`, async (t) => {
    const folder = makeFolder(t);
    const verdicts: Verdict[] = [];
    for (const [n, place] of places.entries()) {
      verdicts.push(await checkStart(folder, log, cutAt(log, place), hasCheckpoint(n, place)));
    }
    assert.equal(count(verdicts, isRefusal), 0);
    assert.ok(count(verdicts, isTaken) > 0);
  });

  test(`a log whose rest from ${says} on is zeros starts, and loses nothing`, async (t) => {
    const folder = makeFolder(t);
    const verdicts: Verdict[] = [];
    for (const [n, place] of places.entries()) {
      verdicts.push(await checkStart(folder, log, zeroedFrom(log, place), hasCheckpoint(n, place)));
    }
    assert.equal(count(verdicts, isRefusal), 0);
    assert.ok(count(verdicts, isTaken) > 0);
  });

  test(`a log whose rest from ${says} on is garbage starts or refuses by its lines, and loses nothing`, async (t) => {
    const folder = makeFolder(t);
    const verdicts: Verdict[] = [];
    for (const [n, place] of places.entries()) {
      verdicts.push(
        await checkStart(folder, log, garbageFrom(log, place), hasCheckpoint(n, place)),
      );
    }
    assert.ok(count(verdicts, isRefusal) > 0, "garbage that contains a line feed needs a person");
    assert.ok(count(verdicts, isTaken) > 0, "garbage without a line feed is a torn tail");
  });
}

for (const hasCheckpoint of [false, true]) {
  const where = hasCheckpoint ? "after its checkpoint" : "and no checkpoint";
  test(`a log with any set of pages missing from its last batch, ${where}, starts and loses nothing`, async (t) => {
    const folder = makeFolder(t);
    const verdicts: Verdict[] = [];
    const sets = 2 ** pageCount(LONG);
    assert.equal(sets, 64);
    for (let pages = 0; pages < sets; pages++) {
      verdicts.push(await checkStart(folder, LONG, withoutPages(LONG, pages), hasCheckpoint));
    }
    assert.equal(count(verdicts, isRefusal), 0);
    assert.equal(count(verdicts, isTaken), sets - 1);
  });
}

/** Where the batch may start in its page and in its sector. */
const FIRST_BYTES = [0, 1, 2, 255, 510, 511, 512, 513, 4094, 4095].map((at) => 8192 + at);

test("a log whose first page is missing starts, no matter where its last batch begins", async (t) => {
  const folder = makeFolder(t);
  for (const start of FIRST_BYTES) {
    const log = makeLog(start, [600, 100, 3000, 2000]);
    assert.equal(log.durableBytes, start);
    for (const pages of [0b1, 0b11, 0b10]) {
      for (const hasCheckpoint of [false, true]) {
        const verdict = await checkStart(folder, log, withoutPages(log, pages), hasCheckpoint);
        assert.equal(verdict.refuses, false, `${start}, pages ${pages.toString(2)}`);
      }
    }
  }
});

test("a start after a power cut warns about what it removed, and the next start does not", async (t) => {
  const folder = makeFolder(t);
  const warnings = collectWarnings(t, folder);
  const image = withoutPages(LONG, 0b10010);
  const verdict = judge(LONG, image);
  assert.ok(!verdict.refuses);
  await checkStart(folder, LONG, image, true);
  assert.equal(warnings.length, verdict.quarantined.split("\n").length - 1);
});
