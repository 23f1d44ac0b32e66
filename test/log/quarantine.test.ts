import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { LogFile } from "../../src/log/file.ts";
import { type ByteRange, quarantine } from "../../src/log/quarantine.ts";
import { openLog } from "../support/logs.ts";
import { snapshot } from "../support/snapshot.ts";

const CONTENT = "0123456789abcdef";

const RANGES: readonly [says: string, ranges: readonly ByteRange[], kept: string][] = [
  ["one range", [{ offset: 3, bytes: 4 }], "3456"],
  ["the whole file", [{ offset: 0, bytes: 16 }], CONTENT],
  ["its last byte", [{ offset: 15, bytes: 1 }], "f"],
  [
    "several ranges, one after the other",
    [
      { offset: 1, bytes: 2 },
      { offset: 10, bytes: 3 },
      { offset: 15, bytes: 1 },
    ],
    "12abcf",
  ],
  ["what there is of a range beyond the end", [{ offset: 12, bytes: 1_048_580 }], "cdef"],
  ["nothing of a range behind the end", [{ offset: 16, bytes: 4 }], ""],
];

for (const [says, ranges, kept] of RANGES) {
  test(`quarantine() keeps ${says} in a file of its own and leaves the log alone`, async (t) => {
    const file = await openLog(t, CONTENT);
    const name = await quarantine(file, ranges);
    assert.deepEqual(snapshot(path.dirname(file.path)), { "test.jsonl": CONTENT, [name]: kept });
    assert.equal(fs.statSync(path.join(path.dirname(file.path), name)).mode & 0o777, 0o600);
  });
}

test("quarantine() copies ranges that are longer than what it copies at once", async (t) => {
  const bytes = Buffer.alloc(3 * 1024 * 1024 + 5, "plants");
  const file = await openLog(t, bytes);
  for (const length of [1024 * 1024 - 1, 1024 * 1024, 1024 * 1024 + 1, 3 * 1024 * 1024]) {
    const name = await quarantine(file, [
      { offset: 1, bytes: length },
      { offset: 0, bytes: 1 },
    ]);
    const kept = fs.readFileSync(path.join(path.dirname(file.path), name));
    const expected = Buffer.concat([bytes.subarray(1, length + 1), bytes.subarray(0, 1)]);
    assert.equal(kept.equals(expected), true, `${length} bytes`);
  }
});

test("quarantine() takes the first number that is free, whatever has the others", async (t) => {
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

test("quarantine() that fails half way leaves nothing behind (fake read failure)", async (t) => {
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

test("LogFile.appendOrThrow() throws io_error, with the cause, for what did not become durable", {
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
