import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { type Checkpoint, EMPTY_LOG } from "../../src/log/checkpoint.ts";
import { scrub } from "../../src/log/scrub.ts";
import { openLog } from "../support/logs.ts";

const CHUNK = 512 * 1024;
const signal = new AbortController().signal;
/** As fast as it can: how it rests is the matter of Pace. */
const SHARE = 1;

function known(bytes: Buffer): Checkpoint {
  return { bytes: bytes.length, records: 0, crc32: crc32(bytes) };
}

const LENGTHS = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 17];

for (const length of LENGTHS) {
  test(`scrub of ${length} bytes finds a byte that was changed anywhere, and else no fault`, async (t) => {
    const bytes = Buffer.from(Array.from({ length }, (_, at) => (at * 31) & 0xff));
    const file = await openLog(t, Buffer.concat([bytes, Buffer.from("what came later")]));
    assert.equal(await scrub(file, known(bytes), signal, SHARE), true);
    for (const at of new Set([0, length >> 1, length - 1])) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.equal(await scrub(file, known(changed), signal, SHARE), false, `byte ${at}`);
    }
  });
}

test("scrub finds a log that was cut, and nothing wrong with an empty one", async (t) => {
  const bytes = Buffer.alloc(2 * CHUNK, "x");
  const file = await openLog(t, bytes);
  assert.equal(await scrub(file, EMPTY_LOG, signal, SHARE), true);
  for (const length of [2 * CHUNK - 1, CHUNK, 1, 0]) {
    fs.truncateSync(file.path, length);
    assert.equal(await scrub(file, known(bytes), signal, SHARE), false, `${length} bytes`);
  }
});

test("scrub ends with the signal's reason, before a read and after one", async (t) => {
  const bytes = Buffer.alloc(2 * CHUNK, "x");
  const reason = new Error("the store is being closed");
  const closed = AbortSignal.abort(reason);
  await assert.rejects(scrub(await openLog(t, bytes), known(bytes), closed), reason);

  const file = await openLog(t, bytes);
  const controller = new AbortController();
  const { read } = file;
  t.mock.method(file, "read", async (buffer: Buffer, position: number) => {
    const got = await read.call(file, buffer, position);
    controller.abort(reason);
    return got;
  });
  await assert.rejects(scrub(file, known(bytes), controller.signal, SHARE), reason);
});

test("scrub tells when the log cannot be read", async (t) => {
  const file = await openLog(t, "x");
  t.mock.method(file, "read", () => Promise.reject(new Error("FAKE: a bad sector")));
  await assert.rejects(scrub(file, known(Buffer.from("x")), signal, SHARE), /bad sector/);
});
