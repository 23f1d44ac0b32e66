import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { type Format, LineWriter } from "../../src/cli/line-writer.ts";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { spawnWriter } from "../support/writer-process.ts";

/** After this time a writer has tried to write the lines it had: its own timer is shorter. */
const PASSED_MS = 50;

/** A text, or a function that makes one. */
type TestEvent = string | (() => string);

const format: Format<TestEvent> = (event) => (typeof event === "string" ? event : event());

function describeLoss(lines: number): TestEvent {
  return `lost ${lines}`;
}

function makeWriter(fd: number, makeLine = format): LineWriter<TestEvent> {
  return new LineWriter(fd, makeLine, describeLoss);
}

function openFile(t: TestContext): { fd: number; read: () => string } {
  const path = join(makeFolder(t), "log");
  const fd = openSync(path, "w");
  t.after(() => closeSync(fd));
  return { fd, read: () => readFileSync(path, "utf8") };
}

test("the lines of one turn of the event loop are written together after it, in order", async (t) => {
  const { fd, read } = openFile(t);
  const writer = makeWriter(fd);
  writer.write("one");
  writer.write("zwölf \u{1f331}");
  assert.equal(read(), "");
  await until("they are written", () => read() !== "");
  assert.equal(read(), "one\nzwölf \u{1f331}\n");
});

test("end() writes waiting lines at once", (t) => {
  const { fd, read } = openFile(t);
  const writer = makeWriter(fd);
  writer.write("last words");
  writer.end();
  assert.equal(read(), "last words\n");
});

test("a line is made after the turn of its event", async (t) => {
  const { fd, read } = openFile(t);
  const writer = makeWriter(fd);
  let made = 0;
  writer.write(() => `line ${++made}`);
  assert.equal(made, 0);
  await until("it is written", () => read() !== "");
  assert.equal(read(), "line 1\n");
  assert.equal(made, 1);
});

test("at most a few hundred lines wait to be made", (t) => {
  const { fd, read } = openFile(t);
  const writer = makeWriter(fd);
  let made = 0;
  for (let at = 1; at <= 5000; at++) {
    writer.write(() => `line ${++made}`);
    assert.ok(at - made <= 300, `${at - made} wait`);
  }
  writer.end();
  const expected = Array.from({ length: 5000 }, (_, at) => `line ${at + 1}\n`);
  assert.ok(read() === expected.join(""));
});

const LINE = "x".repeat(1023);

test("more lines than the limit in one turn are not lost if the reader takes them", (t) => {
  const fd = openSync("/dev/null", "w");
  t.after(() => closeSync(fd));
  const losses: number[] = [];
  const writer = new LineWriter(fd, format, (lines) => `lost ${losses.push(lines)}`);
  for (let at = 0; at < 5000; at++) writer.write(LINE);
  writer.end();
  assert.deepEqual(losses, []);
});

test("a file gets every line in order, over many turns", async (t) => {
  const { fd, read } = openFile(t);
  const writer = makeWriter(fd);
  let expected = "";
  for (let at = 0; at < 300; at++) {
    const line = `${at} ${LINE}`;
    writer.write(line);
    expected += `${line}\n`;
    const before = read().length;
    if (at % 10 === 0) await until("more is written", () => read().length > before);
    else await turn();
  }
  await until("all is written", () => read().length >= expected.length);
  assert.ok(read() === expected);
});

test("lines beyond the limit that are not read are dropped, and a later line reports how many", async (t) => {
  const pipe = openPipe(t);
  const writer = makeWriter(pipe.fd);
  for (let at = 0; at < 5000; at++) writer.write(LINE);
  await until("the loss is reported", () => /^lost [0-9]+\n$/m.test(pipe.read()));
  const lines = pipe.read().split("\n");
  const kept = lines.filter((line) => line === LINE).length;
  assert.ok(kept >= 1024 && kept < 5000, `${kept} were kept`);
  assert.deepEqual(lines.slice(kept), [`lost ${5000 - kept}`, ""]);
  writer.write("again");
  await until("the next line comes", () => pipe.read().endsWith("\nagain\n"));
});

const BOUND = 1024 * 1024;

/** The last line, if this many bytes of room are left for it. */
const LAST_LINES: readonly [says: string, left: number, line: string, isKept: boolean][] = [
  ["that just fits", 12, "x".repeat(11), true],
  ["one byte too long", 12, "x".repeat(12), false],
  ["of two-byte characters that just fits", 12, "\u00fc\u00fc\u00fc\u00fc\u00fcx", true],
  ["of two-byte characters, one byte too long", 12, "\u00fc".repeat(6), false],
  ["of four-byte characters that just fits", 12, "\u{1f331}\u{1f331}xxx", true],
  ["of four-byte characters, one byte too long", 12, "\u{1f331}".repeat(3), false],
  ["that is empty, and whose line feed just fits", 1, "", true],
  ["that is empty, one byte too long", 0, "", false],
  ["as long as the limit", BOUND, "x".repeat(BOUND - 1), true],
];

for (const [says, left, line, isKept] of LAST_LINES) {
  test(`with ${left} bytes of room a line ${says} is ${isKept ? "kept" : "dropped"} whole`, async (t) => {
    const pipe = openPipe(t);
    const before = pipe.fill();
    const writer = makeWriter(pipe.fd);
    const first = left === BOUND ? "" : `${"-".repeat(BOUND - left - 1)}\n`;
    if (first !== "") writer.write(first.slice(0, -1));
    writer.write(line);
    await sleep(PASSED_MS); // the line is made before anybody reads
    const expected = `${before}${first}${isKept ? line : "lost 1"}\n`;
    await until("all is read", () => pipe.read().length >= expected.length);
    assert.ok(pipe.read() === expected);
  });
}

for (const line of ["x".repeat(BOUND), "\u20ac".repeat(Math.ceil(BOUND / 3))]) {
  test(`a line of ${line.length} units, longer than the limit, is dropped, and reported after the next line`, (t) => {
    const { fd, read } = openFile(t);
    const writer = makeWriter(fd);
    writer.write(line);
    writer.write("next");
    writer.end();
    assert.equal(read(), "next\nlost 1\n");
  });
}

test("a line has the time of its event", (t) => {
  const { fd, read } = openFile(t);
  let now = 5000;
  t.mock.method(Date, "now", () => now);
  const writer = makeWriter(fd, (_, time) => `${time}`);
  for (const time of [1000, 2000, 2500]) {
    now = time;
    writer.write("event");
  }
  now = 9000; // the lines are made now
  writer.end();
  assert.equal(read(), "1000\n2000\n2500\n");
});

test("dropped lines are reported even if no line follows", async (t) => {
  const { fd, read } = openFile(t);
  const writer = makeWriter(fd);
  writer.write("x".repeat(BOUND));
  await until("it is reported", () => read() !== "");
  assert.equal(read(), "lost 1\n");
});

test("a reader that takes a little at a time gets every line in order", async (t) => {
  const pipe = openPipe(t);
  const writer = makeWriter(pipe.fd);
  let expected = "";
  let read = 0;
  for (let at = 0; at < 9000; at++) {
    const line = `${at} ${"z\u00fc\u{1f331}".repeat(at % 30)}`;
    writer.write(() => line);
    expected += `${line}\n`;
    if (at % 300 > 0) continue;
    const before = read;
    await until("some is read", () => {
      read = pipe.read(10_000).length;
      return read > before;
    });
  }
  await until("all is read", () => pipe.read().length >= expected.length);
  assert.ok(pipe.read() === expected);
});

function makePipe(t: TestContext): string {
  const path = join(makeFolder(t), "pipe");
  assert.equal(spawnSync("mkfifo", [path]).status, 0);
  return path;
}

/** What a pipe holds, up to the length of the chunk; no bytes if the pipe is empty. */
function readSome(fd: number, chunk = Buffer.alloc(1024)): Buffer {
  try {
    return chunk.subarray(0, readSync(fd, chunk, 0, chunk.length, null));
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
    return chunk.subarray(0, 0);
  }
}

/** A pipe that takes what fits into it, and is read only by `read`, which returns all that was read. */
function openPipe(t: TestContext) {
  const fd = openSync(makePipe(t), constants.O_RDWR | constants.O_NONBLOCK);
  t.after(() => closeSync(fd));
  const chunk = Buffer.alloc(BOUND);
  const decoder = new StringDecoder();
  let text = "";
  return {
    fd,
    read(bytes = chunk.length): string {
      text += decoder.write(readSome(fd, chunk.subarray(0, bytes)));
      return text;
    },
    /** Fills the pipe, and returns what it holds then. */
    fill(): string {
      let filled = 0;
      for (const bytes of [4096, 1]) {
        try {
          for (;;) filled += writeSync(fd, ".".repeat(bytes));
        } catch (error) {
          assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
        }
      }
      return ".".repeat(filled);
    },
  };
}

test("a program that makes the shared pipe blocking delays nothing", TIMEOUT, async (t) => {
  const pipe = openPipe(t); // Node would make a socket
  const child = spawnWriter(
    t,
    `spawnSync("true", { stdio: ["ignore", "ignore", "inherit"] });
     for (let at = 0; at < 900; at++) writer.write("x".repeat(999));
     setTimeout(() => process.stdout.write("wrote"), ${PASSED_MS});
     process.stdin.resume();`,
    pipe.fd,
  );
  const [first] = await once(child.stdout ?? child, "data");
  assert.equal(String(first), "wrote");
});

test("a reader that comes back gets the waiting lines", async (t) => {
  const path = makePipe(t);
  const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants;
  const gone = openSync(path, O_RDONLY | O_NONBLOCK);
  const fd = openSync(path, O_WRONLY | O_NONBLOCK);
  t.after(() => closeSync(fd));
  closeSync(gone);
  const writer = makeWriter(fd);
  writer.write("first");
  await sleep(PASSED_MS); // the write was tried, without a reader
  const reader = openSync(path, O_RDONLY | O_NONBLOCK);
  t.after(() => closeSync(reader));
  assert.equal(String(readSome(reader)), "");
  writer.write("second");
  let text = "";
  await until("all is read", () => {
    text += readSome(reader);
    return text.length >= 13;
  });
  assert.equal(text, "first\nsecond\n");
});
