/** Reads of a log for requests: pieces from all over it, and how many are under way at once. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import type { FilePiece } from "../../src/log/file.ts";
import { openLog } from "../support/logs.ts";

const CONTENT = Buffer.from(Array.from({ length: 50_000 }, (_, at) => 1 + ((at * 7919) % 251)));

type Place = readonly [position: number, bytes: number];

/** Pieces of these lengths, each somewhere in the file. */
function piecesOf(places: readonly Place[]): FilePiece[] {
  let start = 0;
  return places.map(([position, bytes]) => {
    const piece = { start, bytes, position };
    start += bytes;
    return piece;
  });
}

/** So many places, from the end of the file to its start. */
function manyPlaces(count: number): Place[] {
  return Array.from({ length: count }, (_, at) => [CONTENT.length - 100 - at * 10, 100]);
}

function contentOf(places: readonly Place[]): Buffer {
  return Buffer.concat(
    places.map(([position, bytes]) => CONTENT.subarray(position, position + bytes)),
  );
}

test("LogFile.readPieces() reads pieces from anywhere in a file", async (t) => {
  const log = await openLog(t, CONTENT);
  const place = fc.tuple(fc.nat(CONTENT.length - 1000), fc.integer({ min: 1, max: 1000 }));
  await fc.assert(
    fc.asyncProperty(fc.array(place, { minLength: 1 }), async (places) => {
      const expected = contentOf(places);
      const buffer = Buffer.alloc(expected.length);
      await log.readPieces(buffer, piecesOf(places));
      assert.deepEqual(buffer, expected);
    }),
  );
});

test("LogFile.readPieces() makes zeros of a piece that the file does not have whole, and reads the others", async (t) => {
  const log = await openLog(t, CONTENT);
  for (const at of [0, 50, 99]) {
    const places = manyPlaces(100).with(at, [CONTENT.length - 5, 6]);
    const expected = contentOf(places.with(at, [0, 6]));
    const start = contentOf(places.slice(0, at)).length;
    expected.fill(0, start, start + 6);
    const buffer = Buffer.alloc(expected.length, "old");
    await log.readPieces(buffer, piecesOf(places));
    assert.deepEqual(buffer, expected);
  }
});

test("LogFile.readPieces() makes zeros of a piece whose read fails (fake fault)", async (t) => {
  const log = await openLog(t, CONTENT);
  const places = manyPlaces(3);
  const { read } = fs;
  t.mock.method(fs, "read", (...given: unknown[]) => {
    const [position, done] = given.slice(4) as [number, (cause: Error) => void];
    if (position === places[1]?.[0]) setImmediate(() => done(new Error("EIO")));
    else (read as (...given: unknown[]) => void)(...given);
  });
  const buffer = Buffer.alloc(300, "old");
  await log.readPieces(buffer, piecesOf(places));
  assert.deepEqual(buffer, Buffer.concat([contentOf(places).fill(0, 100, 200)]));
});

/** Holds all reads; `release()` lets the oldest one go on. Single reads are of ten bytes. */
function holdEachRead(t: TestContext) {
  const held: { readonly kind: "piece" | "single"; readonly release: () => void }[] = [];
  const read = fs.read as (...given: unknown[]) => void;
  t.mock.method(fs, "read", (...given: unknown[]) => {
    held.push({ kind: given[3] === 10 ? "single" : "piece", release: () => read(...given) });
  });
  return held;
}

test("two reads for requests are under way at once in all logs, and lists of pieces hold up no other read (held reads)", async (t) => {
  const logs = [await openLog(t, CONTENT), await openLog(t, CONTENT)];
  const held = holdEachRead(t);
  let ended = 0;
  const lists = logs.map((log) => log.readPieces(Buffer.alloc(10_000), piecesOf(manyPlaces(100))));
  const singles = logs.flatMap((log) =>
    Array.from({ length: 4 }, () => log.readForRequest(Buffer.alloc(10), 0).then(() => ended++)),
  );
  const all = Promise.all([...lists, ...singles]);
  const kinds: string[] = [];
  let isOver = false;
  void all.then(() => {
    isOver = true;
  });
  while (!isOver) {
    await new Promise(setImmediate);
    assert.ok(held.length <= 2, `${held.length} at once`);
    const oldest = held.shift();
    if (oldest === undefined) continue;
    kinds.push(oldest.kind);
    oldest.release();
  }
  assert.equal(kinds.length, 208);
  assert.ok(kinds.lastIndexOf("single") < 20, `${kinds.slice(0, 30)}`);
});
