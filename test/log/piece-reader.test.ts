/** Pieces of a file that a thread of its own reads. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { LogFile } from "../../src/log/file.ts";
import { type FilePiece, PieceReader } from "../../src/log/piece-reader.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runModule } from "../support/run.ts";

const CONTENT = Buffer.from(Array.from({ length: 50_000 }, (_, at) => (at * 7919) % 251));

function makeFile(t: TestContext): string {
  const file = path.join(makeFolder(t), "plants.jsonl");
  fs.writeFileSync(file, CONTENT);
  return file;
}

function openReader(t: TestContext) {
  const fd = fs.openSync(makeFile(t), "r");
  const reader = new PieceReader();
  t.after(async () => {
    await reader.close();
    fs.closeSync(fd);
  });
  return { fd, reader };
}

/** Pieces of these lengths, each somewhere in the file. */
function piecesOf(places: readonly Place[]): FilePiece[] {
  let start = 0;
  return places.map(([position, bytes]) => {
    const piece = { start, bytes, position };
    start += bytes;
    return piece;
  });
}

function contentOf(pieces: readonly FilePiece[]): Buffer {
  return Buffer.concat(
    pieces.map(({ position, bytes }) => CONTENT.subarray(position, position + bytes)),
  );
}

/** A busy machine may keep the thread waiting. */
const ALL_THE_TIME = Number.POSITIVE_INFINITY;

type Place = readonly [position: number, bytes: number];

/** So many places, from the end of the file to its start. */
function manyPlaces(count: number): Place[] {
  return Array.from({ length: count }, (_, at) => [CONTENT.length - 100 - at * 10, 100]);
}

function manyPieces(count: number): FilePiece[] {
  return piecesOf(manyPlaces(count));
}

test("pieces from anywhere in a file are read whole", async (t) => {
  const { fd, reader } = openReader(t);
  const place = fc.tuple(fc.nat(CONTENT.length - 1000), fc.nat(1000));
  await fc.assert(
    fc.asyncProperty(fc.array(place), async (places) => {
      const pieces = piecesOf(places);
      const read = await reader.read(fd, pieces, ALL_THE_TIME);
      assert.equal(read?.count, pieces.length);
      assert.deepEqual(read.buffer, contentOf(pieces));
    }),
  );
});

test("a piece after the end of the file stops the list, and the pieces before it are read", async (t) => {
  const { fd, reader } = openReader(t);
  const pieces = piecesOf([
    [0, 10],
    [20, 10],
    [CONTENT.length - 5, 6],
    [40, 10],
  ]);
  assert.equal((await reader.read(fd, pieces, ALL_THE_TIME))?.count, 2);
});

test("a descriptor that cannot be read reads nothing, and the next list is read", async (t) => {
  const { fd, reader } = openReader(t);
  assert.equal((await reader.read(-1, manyPieces(2), ALL_THE_TIME))?.count, 0);
  assert.equal((await reader.read(fd, manyPieces(2), ALL_THE_TIME))?.count, 2);
});

test("a thread without time reads nothing", async (t) => {
  const { fd, reader } = openReader(t);
  assert.equal((await reader.read(fd, manyPieces(8), 0))?.count, 0);
});

test("a closed log has no thread any more", {
  skip: !fs.existsSync("/proc/self/task"),
}, async (t) => {
  const countThreads = () => fs.readdirSync("/proc/self/task").length;
  const log = await openLog(t);
  await log.readPieces(manyPieces(1)); // the pool has its threads
  const before = countThreads();
  await log.readPieces(manyPieces(8));
  assert.ok(countThreads() > before);
  await log.close();
  assert.equal(countThreads(), before);
});

test("a list is over when its thread has ended, and later lists read nothing", async (t) => {
  const { fd, reader } = openReader(t);
  const reading = reader.read(fd, manyPieces(1000));
  await reader.close();
  await reading;
  assert.equal(await reader.read(fd, manyPieces(1)), undefined);
});

test("a process ends after its reads, and not before", async (t) => {
  const program = `
    import fs from "node:fs";
    import { PieceReader } from ${JSON.stringify(path.join(ROOT, "src/log/piece-reader.ts"))};
    const reader = new PieceReader();
    const fd = fs.openSync(${JSON.stringify(makeFile(t))}, "r");
    for (const count of [1, 2]) {
      const pieces = Array(count).fill({ start: 0, bytes: 10, position: 0 });
      console.log((await reader.read(fd, pieces, Infinity)).count);
    }`;
  const { status, stdout } = await runModule(program);
  assert.deepEqual([status, stdout], [0, "1\n2\n"]);
});

type Read = PieceReader["read"];

/** What the thread does for a log. */
const THREADS: Readonly<Record<string, (read: Read) => Read>> = {
  "has time for all": (read) =>
    function (this: PieceReader, fd, pieces) {
      return read.call(this, fd, pieces, ALL_THE_TIME);
    },
  "has time for none": (read) =>
    function (this: PieceReader, fd, pieces) {
      return read.call(this, fd, pieces, 0);
    },
  "is not there": () => async () => undefined,
};

for (const [what, replace] of Object.entries(THREADS)) {
  for (const [count, lists] of [
    [0, 0],
    [1, 0],
    [7, 0],
    [8, 1],
    [1000, 1],
  ] as const) {
    test(`a log reads ${count} pieces if its thread ${what}`, async (t) => {
      const log = await openLog(t);
      const { mock } = t.mock.method(
        PieceReader.prototype,
        "read",
        replace(PieceReader.prototype.read),
      );
      const pieces = manyPieces(count);
      assert.deepEqual(await log.readPieces(pieces), contentOf(pieces));
      assert.equal(mock.callCount(), lists, "lists for the thread");
    });
  }
}

test("a log that ends before a piece does is an io_error, once no read is under way", async (t) => {
  const log = await openLog(t);
  const { read } = fs;
  let underWay = 0;
  t.mock.method(fs, "read", (...given: unknown[]) => {
    const done = given.pop() as (...outcome: unknown[]) => void;
    underWay++;
    const counted = (...outcome: unknown[]) => {
      underWay--;
      done(...outcome);
    };
    (read as (...given: unknown[]) => void)(...given, counted);
  });
  const short: Place = [CONTENT.length - 5, 6];
  for (const places of [[short], [short, ...manyPlaces(100)], [...manyPlaces(100), short]]) {
    await assert.rejects(log.readPieces(piecesOf(places)), { code: "io_error" });
    assert.equal(underWay, 0);
  }
});

async function openLog(t: TestContext): Promise<LogFile> {
  const log = await LogFile.openForReading(makeFile(t));
  assert.ok(log !== undefined);
  t.after(() => log.close());
  return log;
}
