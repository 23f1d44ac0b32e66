/** Pieces of a file that a thread of its own reads. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { LogFile } from "../../src/log/file.ts";
import { type FilePiece, PieceReader } from "../../src/log/piece-reader.ts";
import { canRun } from "../faults/machine.ts";
import { makeFolder } from "../support/folders.ts";
import { NEEDS_ROOT, SERVICE } from "../support/other-user.ts";
import { ROOT } from "../support/package.ts";
import { runModule } from "../support/run.ts";
import { collectWarnings, until } from "../support/watch.ts";

const CONTENT = Buffer.from(Array.from({ length: 50_000 }, (_, at) => (at * 7919) % 251));

function makeFile(t: TestContext): string {
  const file = path.join(makeFolder(t), "plants.jsonl");
  fs.writeFileSync(file, CONTENT);
  return file;
}

/** A reader that has no thread yet. */
function makeReader(t: TestContext) {
  const fd = fs.openSync(makeFile(t), "r");
  const reader = new PieceReader();
  t.after(async () => {
    await reader.close();
    fs.closeSync(fd);
  });
  return { fd, reader };
}

/** Resolves when the thread runs; until then `read` gives `undefined`. */
function waitUntilRunning(read: () => ReturnType<PieceReader["read"]>): Promise<void> {
  return until("the thread runs", async () => (await read()) !== undefined);
}

async function openReader(t: TestContext) {
  const { fd, reader } = makeReader(t);
  const threads: Worker[] = [];
  const note = (thread: Worker) => threads.push(thread);
  process.on("worker", note);
  t.after(() => process.off("worker", note));
  await waitUntilRunning(() => reader.read(fd, []));
  return { fd, reader, threads };
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

type Opened = Awaited<ReturnType<typeof openReader>>;

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
  const { fd, reader } = await openReader(t);
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
  const { fd, reader } = await openReader(t);
  const pieces = piecesOf([
    [0, 10],
    [20, 10],
    [CONTENT.length - 5, 6],
    [40, 10],
  ]);
  assert.equal((await reader.read(fd, pieces, ALL_THE_TIME))?.count, 2);
});

test("a descriptor that cannot be read reads nothing, and the next list is read", async (t) => {
  const { fd, reader } = await openReader(t);
  assert.equal((await reader.read(-1, manyPieces(2), ALL_THE_TIME))?.count, 0);
  assert.equal((await reader.read(fd, manyPieces(2), ALL_THE_TIME))?.count, 2);
});

test("a thread without time reads nothing", async (t) => {
  const { fd, reader } = await openReader(t);
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
  await until("the thread is gone", () => countThreads() === before); // the kernel may need a moment
});

test("a thread has 5 µs for each piece of a list", async (t) => {
  const { fd, reader } = await openReader(t);
  const { mock } = t.mock.method(Worker.prototype, "postMessage");
  await reader.read(fd, manyPieces(64));
  assert.deepEqual(
    mock.calls.map(({ arguments: [list] }) => list.limitMs),
    [64 * 0.005],
  );
});

test("a list for which there is no memory is left to the caller, and the next one is read", async (t) => {
  const { fd, reader } = await openReader(t);
  const huge = { start: 0, bytes: 2 ** 52, position: 0 };
  assert.equal(await reader.read(fd, [huge]), undefined);
  assert.equal((await reader.read(fd, manyPieces(8), ALL_THE_TIME))?.count, 8);
});

test("no list waits for a thread that starts", async (t) => {
  const { fd, reader } = makeReader(t);
  assert.equal(await reader.read(fd, manyPieces(8)), undefined);
  assert.equal(await reader.read(fd, manyPieces(8)), undefined);
});

test("one thread reads all lists, into one buffer", async (t) => {
  const { fd, reader, threads } = await openReader(t);
  const memory = new Set<unknown>();
  for (const count of [9, 8, 16]) {
    const read = await reader.read(fd, manyPieces(count), ALL_THE_TIME);
    memory.add(read?.buffer.buffer);
  }
  assert.deepEqual([threads.length, memory.size], [1, 1]);
});

for (const [how, warned, end] of [
  ["its log is closed", 0, ({ reader }) => reader.close()],
  ["the thread ends by itself", 1, ({ threads }) => threads[0]?.terminate()],
] as const satisfies readonly [string, number, (opened: Opened) => unknown][]) {
  test(`a list settles when ${how}, and later lists are left to the caller`, async (t) => {
    const warnings = collectWarnings(t);
    const opened = await openReader(t);
    const { fd, reader } = opened;
    const reading = reader.read(fd, manyPieces(1000), ALL_THE_TIME);
    await end(opened);
    await reading;
    assert.equal(await reader.read(fd, manyPieces(1)), undefined);
    assert.equal(opened.threads.length, 1);
    assert.equal(warnings.length, warned);
  });
}

test("a process ends after its reads, and not before", async (t) => {
  const program = `
    const { setImmediate } = await import("node:timers/promises");
    while ((await reader.read(fd, [])) === undefined) await setImmediate();
    for (const count of [1, 2]) {
      const pieces = Array(count).fill({ start: 0, bytes: 10, position: 0 });
      console.log((await reader.read(fd, pieces, Infinity)).count);
    }`;
  assert.deepEqual(await runWithReader(t, program), [0, "1\n2\n"]);
});

test("a process does not wait for a thread that starts", async (t) => {
  assert.deepEqual(await runWithReader(t, "console.log(await reader.read(fd, []));"), [
    0,
    "undefined\n",
  ]);
});

const GIB_64 = 64 * 2 ** 30;

/** What limits the process, how many threads its lists start, and how many warnings they give. */
const LIMITS = [
  ["no limits", "", 1, 0],
  ["a limited address space", `--as=${GIB_64}:`, 0, 0],
  ["a limited data segment", `--data=${GIB_64}:`, 0, 0],
  ["no room for another process", "--nproc=1:", 0, 1],
] as const;

for (const [what, limit, threads, warnings] of LIMITS) {
  const asUser = limit.startsWith("--nproc"); // it does not count for root
  test(`with ${what}, lists start ${threads} threads and give ${warnings} warnings`, {
    ...(asUser ? NEEDS_ROOT : {}),
  }, async (t) => {
    if (limit !== "" && !canRun(t, "prlimit", limit, "true")) return;
    const program = `
      import { execFileSync } from "node:child_process";
      import { subscribe } from "node:diagnostics_channel";
      import { setImmediate } from "node:timers/promises";
      if ("${limit}" !== "") execFileSync("prlimit", ["--pid", String(process.pid), "${limit}"]);
      if (${asUser}) process.setuid(${SERVICE});
      const counts = [0, 0];
      process.on("worker", () => counts[0]++);
      subscribe("plant-store:warning", () => counts[1]++);
      for (let list = 0; list < 2; list++) {
        await reader.read(fd, []);
        await setImmediate();
      }
      console.log(...counts);`;
    assert.deepEqual(await runWithReader(t, program), [0, `${threads} ${warnings}\n`]);
  });
}

/** The exit status of a program with a `reader` and an open `fd`, and what it prints. */
async function runWithReader(t: TestContext, program: string) {
  const { status, stdout } = await runModule(`
    import fs from "node:fs";
    import { PieceReader } from ${JSON.stringify(path.join(ROOT, "src/log/piece-reader.ts"))};
    const reader = new PieceReader();
    const fd = fs.openSync(${JSON.stringify(makeFile(t))}, "r");
    ${program}`);
  return [status, stdout];
}

type Read = PieceReader["read"];

/** What the thread does for a log. */
const THREADS: Readonly<Record<string, (read: Read) => Read>> = {
  "has time for all": (read) => limitedTo(ALL_THE_TIME, read),
  "has time for none": (read) => limitedTo(0, read),
  "is not there": () => async () => undefined,
};

function limitedTo(limitMs: number, read: Read): Read {
  return async function (this: PieceReader, fd, pieces) {
    await waitUntilRunning(() => read.call(this, fd, []));
    return read.call(this, fd, pieces, limitMs);
  };
}

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
