import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { LogFile } from "../../src/log/file.ts";
import { type LinePosition, LOG_START } from "../../src/log/lines.ts";
import { mendLog, quarantine } from "../../src/log/mend.ts";
import { MEDDLING, openLog } from "../support/logs.ts";
import { snapshot } from "../support/snapshot.ts";

const LINES = '{"id":1}\n{"id":2}\n';
const TAIL_START = { offset: LINES.length, line: 3 };

/** Replaces the store's rule, because mending knows nothing about plants. */
const isRecord = (text: Buffer) => /^\{.*\}$/.test(text.toString());

/** Mends a log in which no line lost pages. */
function mendTail(
  file: LogFile,
  tail: LinePosition,
  isRecord: (text: Buffer) => boolean,
): Promise<number> {
  return mendLog(file, { lost: [], tail, isRecord });
}

/** Counts the warnings since the call. */
function countWarnings(t: TestContext): () => number {
  let count = 0;
  const listen = () => {
    count++;
  };
  subscribe("plant-store:warning", listen);
  t.after(() => unsubscribe("plant-store:warning", listen));
  return () => count;
}

/** Every file in the log's folder except the log itself, with its content. */
function beside(file: LogFile): Record<string, Buffer> {
  const folder = path.dirname(file.path);
  const names = fs.readdirSync(folder).filter((name) => name !== path.basename(file.path));
  return Object.fromEntries(names.map((name) => [name, fs.readFileSync(path.join(folder, name))]));
}

test("mendLog() leaves a log alone that ends with a line feed", async (t) => {
  for (const [content, start] of [
    ["", LOG_START],
    [LINES, TAIL_START],
  ] as const) {
    const warnings = countWarnings(t);
    const file = await openLog(t, content);
    const asked = t.mock.fn(isRecord);
    assert.equal(await mendTail(file, start, asked), content.length);
    assert.equal(fs.readFileSync(file.path, "utf8"), content);
    assert.deepEqual(beside(file), {});
    assert.equal(asked.mock.callCount() + warnings(), 0);
  }
});

test("mendLog() completes a record that lacks only its line feed, and warns", async (t) => {
  for (const [lines, start] of [
    ["", LOG_START],
    [LINES, TAIL_START],
  ] as const) {
    const warnings = countWarnings(t);
    const file = await openLog(t, `${lines}{"id":3}`);
    assert.equal(await mendTail(file, start, isRecord), lines.length + 9);
    assert.equal(fs.readFileSync(file.path, "utf8"), `${lines}{"id":3}\n`);
    assert.deepEqual(beside(file), {});
    assert.equal(warnings(), 1);
  }
});

const TORN: Readonly<Record<string, Buffer>> = {
  "one byte": Buffer.from("{"),
  "a record cut short": Buffer.from('{"id":3'),
  "a record with bytes after it": Buffer.from('{"id":3} {'),
  "one NUL byte": Buffer.alloc(1),
  "a page of NUL bytes": Buffer.alloc(4096),
  "a record and NUL bytes": Buffer.concat([Buffer.from('{"id":3}'), Buffer.alloc(512)]),
  "bytes that are not UTF-8": Buffer.from([0xff, 0xfe, 0x80]),
  "more than the buffer for copies": Buffer.alloc(2 * 1024 * 1024 + 3, "torn"),
};

for (const [what, tail] of Object.entries(TORN)) {
  test(`mendLog() keeps a tail of ${what} in quarantine, cuts it and warns`, async (t) => {
    const warnings = countWarnings(t);
    const file = await openLog(t, Buffer.concat([Buffer.from(LINES), tail]));
    assert.equal(await mendTail(file, TAIL_START, isRecord), LINES.length);
    assert.equal(fs.readFileSync(file.path, "utf8"), LINES);
    const { "test.jsonl.quarantine-1": kept, ...others } = beside(file);
    assert.equal(kept?.equals(tail), true);
    assert.deepEqual(others, {});
    assert.equal(warnings(), 1);
    const quarantine = `${file.path}.quarantine-1`;
    assert.equal(fs.statSync(quarantine).mode & 0o777, 0o600);
  });
}

test("mendLog() never writes over an earlier quarantine", async (t) => {
  const first = await openLog(t, LINES);
  for (const [index, torn] of ["first", "second", "third"].entries()) {
    fs.appendFileSync(first.path, torn);
    const file = await LogFile.open(first.path);
    t.after(() => file.close());
    assert.equal(await mendTail(file, TAIL_START, isRecord), LINES.length);
    assert.equal(Object.keys(beside(file)).length, index + 1);
  }
  const kept = Object.entries(beside(first)).map(([name, bytes]) => `${name} ${bytes}`);
  assert.deepEqual(kept.sort(), [
    "test.jsonl.quarantine-1 first",
    "test.jsonl.quarantine-2 second",
    "test.jsonl.quarantine-3 third",
  ]);
});

test("mendLog() does not look for a record in a tail of more than 64 MiB", async (t) => {
  const { path: log } = await openLog(t, LINES);
  const limit = 64 * 1024 * 1024;
  fs.truncateSync(log, LINES.length + limit + 1); // a hole: NUL bytes that take no space
  const file = await LogFile.open(log);
  t.after(() => file.close());
  const asked = t.mock.fn(isRecord);
  assert.equal(await mendTail(file, TAIL_START, asked), LINES.length);
  assert.equal(asked.mock.callCount(), 0);
  assert.equal(fs.statSync(`${file.path}.quarantine-1`).size, limit + 1);
  assert.equal(fs.readFileSync(file.path, "utf8"), LINES);
});

for (const [what, meddle] of Object.entries(MEDDLING)) {
  test(`a log that another process has ${what} since its survey is left as it is`, async (t) => {
    for (const rest of ["torn", '{"id":3}', ""]) {
      const file = await openLog(t, LINES + rest);
      const lost = rest === "" ? [{ offset: 0, bytes: 9 }] : [];
      meddle(file.path);
      const content = fs.readFileSync(file.path, "utf8");
      await assert.rejects(mendLog(file, { lost, tail: TAIL_START, isRecord }), {
        code: "locked",
      });
      assert.equal(fs.readFileSync(file.path, "utf8"), content, `after ${rest}`);
      assert.equal(beside(file)["test.jsonl.quarantine-1"], undefined);
    }
  });
}

test("a torn tail that another process has replaced with a record of the same length is not cut", async (t) => {
  const record = '{"id":3}\n';
  const file = await openLog(t, LINES + "t".repeat(record.length));
  const read = file.read.bind(file);
  let reads = 0;
  t.mock.method(file, "read", async (buffer: Buffer, position: number) => {
    const got = await read(buffer, position);
    if (reads++ === 1) {
      fs.truncateSync(file.path, LINES.length); // as a concurrent start does
      fs.appendFileSync(file.path, record);
    }
    return got;
  });
  await assert.rejects(mendTail(file, TAIL_START, isRecord), { code: "locked" });
  assert.equal(fs.readFileSync(file.path, "utf8"), LINES + record);
});

test("a log to which another process appends during the quarantine is not cut", async (t) => {
  const file = await openLog(t, `${LINES}torn`);
  const read = file.read.bind(file);
  let reads = 0;
  t.mock.method(file, "read", async (buffer: Buffer, position: number) => {
    // The first read judges the tail, and the second copies it into the quarantine file.
    if (reads++ === 1) fs.appendFileSync(file.path, '"}\n');
    return read(buffer, position);
  });
  await assert.rejects(mendTail(file, TAIL_START, isRecord), { code: "locked" });
  assert.equal(fs.readFileSync(file.path, "utf8"), `${LINES}torn"}\n`);
});

const CONTENT = "0123456789abcdef";

test("quarantine() uses the first free number", async (t) => {
  const file = await openLog(t, CONTENT);
  fs.writeFileSync(`${file.path}.quarantine-1`, "earlier");
  fs.mkdirSync(`${file.path}.quarantine-2`);
  fs.writeFileSync(`${file.path}.quarantine-4`, "later");
  const names = [];
  for (let time = 0; time < 2; time++)
    names.push(await quarantine(file, [{ offset: 0, bytes: 2 }]));
  assert.deepEqual(names, ["test.jsonl.quarantine-3", "test.jsonl.quarantine-5"]);
  assert.equal(fs.readFileSync(`${file.path}.quarantine-1`, "utf8"), "earlier");
  assert.equal(fs.readFileSync(`${file.path}.quarantine-4`, "utf8"), "later");
});

test("quarantine() that fails half way leaves no file (fake read failure)", async (t) => {
  const file = await openLog(t, CONTENT);
  const read = file.read.bind(file);
  t.mock.method(file, "read", async (buffer: Buffer, position: number) => {
    if (position > 0) throw new Error("i/o error");
    return read(buffer, position);
  });
  const ranges = [
    { offset: 0, bytes: 4 },
    { offset: 8, bytes: 4 },
  ];
  await assert.rejects(quarantine(file, ranges));
  assert.deepEqual(snapshot(path.dirname(file.path)), { "test.jsonl": CONTENT });
});

test("LogFile.appendOrThrow() throws io_error, with the cause, unless the bytes are durable", {
  skip: !fs.existsSync("/dev/full"),
}, async (t) => {
  const file = await LogFile.open("/dev/full"); // every write to it fails with ENOSPC
  t.after(() => file.close());
  await assert.rejects(file.appendOrThrow(Buffer.from("a")), (error: Error) => {
    assert.equal((error as Error & { code?: string }).code, "io_error");
    assert.equal((error.cause as NodeJS.ErrnoException).code, "ENOSPC");
    return true;
  });
});
