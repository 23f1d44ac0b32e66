import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import {
  type Checkpoint,
  checkpointPath,
  EMPTY_LOG,
  encodeCheckpoint,
  extendCheckpoint,
  readCheckpoint,
  removeCheckpoint,
  writeCheckpoint,
} from "../../src/log/checkpoint.ts";
import { makeFolder } from "../support/folders.ts";

const SOME: Checkpoint = { bytes: 1234, records: 56, crc32: 0x0a0b0c0d };

function logIn(t: TestContext): string {
  return path.join(makeFolder(t), "test.jsonl");
}

/** What is read of a checkpoint file that holds these bytes. */
function decode(logPath: string, content: string | Buffer): Promise<Checkpoint | undefined> {
  fs.writeFileSync(checkpointPath(logPath), content);
  return readCheckpoint(logPath);
}

test("encodeCheckpoint() makes one line of JSON, whose last member checks what stands before it", () => {
  const line = encodeCheckpoint(SOME);
  assert.match(line, /^[^\n]+\n$/);
  const { check, ...members } = JSON.parse(line);
  assert.deepEqual(members, { bytes: 1234, records: 56, crc32: "0a0b0c0d" });
  const before = line.slice(0, line.indexOf(',"check"'));
  assert.equal(check, crc32(before).toString(16).padStart(8, "0"));
});

test("a checkpoint that was written is read as it was, whatever its numbers", async (t) => {
  const logPath = logIn(t);
  const any = fc.record({
    bytes: fc.integer({ min: 0, max: 2 ** 40 }),
    records: fc.integer({ min: 0, max: 2 ** 36 }),
    crc32: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  });
  await fc.assert(
    fc.asyncProperty(any, async (checkpoint) => {
      assert.deepEqual(await decode(logPath, encodeCheckpoint(checkpoint)), { ...checkpoint });
    }),
  );
  await writeCheckpoint(logPath, SOME);
  assert.deepEqual(await readCheckpoint(logPath), SOME);
  assert.equal(fs.readFileSync(checkpointPath(logPath), "utf8"), encodeCheckpoint(SOME));
});

test("a checkpoint with any bit flipped says nothing", async (t) => {
  const logPath = logIn(t);
  const whole = Buffer.from(encodeCheckpoint(SOME));
  for (let at = 0; at < whole.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const flipped = Buffer.from(whole);
      flipped[at] = (whole[at] ?? 0) ^ (1 << bit);
      assert.equal(await decode(logPath, flipped), undefined, `byte ${at}, bit ${bit}`);
    }
  }
});

test("a checkpoint that is torn at any byte says nothing, and neither is a fault", async (t) => {
  const logPath = logIn(t);
  const whole = encodeCheckpoint(SOME);
  for (let length = 0; length < whole.length; length++) {
    assert.equal(await decode(logPath, whole.slice(0, length)), undefined, `${length} bytes`);
    const padded = whole.slice(0, length).padEnd(whole.length, "\0");
    assert.equal(await decode(logPath, padded), undefined, `${length} bytes, then NULs`);
  }
});

const FOREIGN: readonly [says: string, content: string][] = [
  ["white space", " \n"],
  ["an empty object", "{}\n"],
  ["another JSON document", '{"bytes":1,"records":1,"crc32":"00000000"}\n'],
  ["two lines", encodeCheckpoint(SOME).repeat(2)],
  ["a line that an editor ended with CRLF", encodeCheckpoint(SOME).replace("\n", "\r\n")],
  ["a line behind a byte order mark", `\ufeff${encodeCheckpoint(SOME)}`],
  ["a negative length with a right check", withCheck('{"bytes":-1,"records":1,"crc32":"00000000"')],
  ["a fraction with a right check", withCheck('{"bytes":1.5,"records":1,"crc32":"00000000"')],
];

function withCheck(text: string): string {
  return `${text},"check":"${crc32(text).toString(16).padStart(8, "0")}"}\n`;
}

for (const [says, content] of FOREIGN) {
  test(`a checkpoint file that holds ${says} says nothing`, async (t) => {
    assert.equal(await decode(logIn(t), content), undefined);
  });
}

test("a missing checkpoint says nothing; one that cannot be read is an input error", async (t) => {
  const logPath = logIn(t);
  assert.equal(await readCheckpoint(logPath), undefined);
  fs.mkdirSync(checkpointPath(logPath));
  await assert.rejects(readCheckpoint(logPath), { code: "io_error" });
});

test("writeCheckpoint() replaces the one before, for its owner alone, and leaves nothing beside it", async (t) => {
  const logPath = logIn(t);
  await writeCheckpoint(logPath, EMPTY_LOG);
  const first = fs.statSync(checkpointPath(logPath)).ino;
  await writeCheckpoint(logPath, SOME);
  assert.deepEqual(await readCheckpoint(logPath), SOME);
  const { ino, mode } = fs.statSync(checkpointPath(logPath));
  assert.equal(mode & 0o777, 0o600);
  assert.notEqual(ino, first, "never written in place");
  assert.deepEqual(fs.readdirSync(path.dirname(logPath)), ["test.jsonl.checkpoint"]);
});

test("what a killed writeCheckpoint() left behind counts for nothing and is in nobody's way", async (t) => {
  const logPath = logIn(t);
  const newPath = `${checkpointPath(logPath)}.new`;
  fs.writeFileSync(newPath, encodeCheckpoint(SOME).repeat(9));
  assert.equal(await readCheckpoint(logPath), undefined);
  await writeCheckpoint(logPath, SOME);
  assert.deepEqual(await readCheckpoint(logPath), SOME);
  assert.equal(fs.existsSync(newPath), false);
});

test("writeCheckpoint() that finds no room leaves the one before it, and nothing else", {
  skip: !fs.existsSync("/dev/full"),
}, async (t) => {
  const logPath = logIn(t);
  await writeCheckpoint(logPath, SOME);
  fs.symlinkSync("/dev/full", `${checkpointPath(logPath)}.new`); // every write to it fails with ENOSPC
  await assert.rejects(writeCheckpoint(logPath, EMPTY_LOG), { code: "io_error" });
  assert.deepEqual(await readCheckpoint(logPath), SOME);
  assert.deepEqual(fs.readdirSync(path.dirname(logPath)), ["test.jsonl.checkpoint"]);
});

test("writeCheckpoint() answers whatever stands in its way with io_error", async (t) => {
  const obstacles: readonly ((logPath: string) => void)[] = [
    (logPath) => fs.rmSync(path.dirname(logPath), { recursive: true }),
    (logPath) => fs.mkdirSync(path.join(checkpointPath(logPath), "full"), { recursive: true }),
    (logPath) => fs.mkdirSync(`${checkpointPath(logPath)}.new`),
  ];
  for (const obstruct of obstacles) {
    const logPath = logIn(t);
    obstruct(logPath);
    await assert.rejects(writeCheckpoint(logPath, SOME), { code: "io_error" });
  }
});

test("removeCheckpoint() removes it, and finds nothing wrong where there is none", async (t) => {
  const logPath = logIn(t);
  await writeCheckpoint(logPath, SOME);
  await removeCheckpoint(logPath);
  await removeCheckpoint(logPath);
  assert.deepEqual(fs.readdirSync(path.dirname(logPath)), []);
});

test("extendCheckpoint() comes to the same however the bytes are split", () => {
  const anyBytes = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(anyBytes), (parts) => {
      let end = EMPTY_LOG;
      for (const part of parts) end = extendCheckpoint(end, part, 2);
      const bytes = Buffer.concat(parts);
      const whole = { bytes: bytes.length, records: 2 * parts.length, crc32: crc32(bytes) };
      assert.deepEqual(end, whole);
    }),
  );
});
