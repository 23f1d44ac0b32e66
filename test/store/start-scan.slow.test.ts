/** Scans of logs of many blocks. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { type LineFault, LogScan, type ScanOptions } from "../../src/store/start.ts";
import { openLog } from "../support/logs.ts";

async function scanLog(t: TestContext, content: string, options: ScanOptions): Promise<void> {
  const file = await openLog(t, content);
  await LogScan.run(file, content.length, options);
}

test("a scan of a log full of repeats reports them while it continues", async (t) => {
  const content = `{"id":1,"name":"${"x".repeat(100)}"}\n`.repeat(12_000);
  let atFirst: number | undefined;
  let reported = 0;
  await scanLog(t, content, {
    onFault: () => reported++,
    onProgress: () => {
      atFirst ??= reported;
    },
  });
  assert.ok((atFirst ?? 0) > 0, "some before the first MiB was reported");
  assert.equal(reported, 11_999);
});

test("a scan that has found a repeat judges those of a log that was appended to itself block by block", async (t) => {
  const first = '{"id":-1,"name":"plant"}\n'.repeat(1000); // they fill a bucket of the index
  const half = Array.from({ length: 60_000 }, (_, n) => `{"id":${n},"name":"plant"}\n`).join("");
  let reported = 0;
  const between: number[] = [];
  await scanLog(t, first + half + half, {
    onProgress: () => {
      between.push(reported);
      reported = 0;
    },
    onFault: () => reported++,
  });
  // The last report comes before the rest is judged; 1.25 MiB holds about 45,000 lines.
  assert.equal(
    between.reduce((sum, count) => sum + count, reported),
    60_999,
  );
  assert.ok(Math.max(...between, reported) < 50_000, between.join());
});

test("a scan finds every plant and every fault, no matter where a block ends", async (t) => {
  const before = '{"id":1,"name":"a"}\n';
  // The end of the first block (1 MiB) is placed at every byte of these lines.
  const lines = [
    '{"id":123456789,"name":"Fern","tag":"é"}\n',
    "x\n",
    '{"id":-98765,"name":"b"}\r\n',
    '{"id":123456789012345678,"name":"c"}\n',
    '{"id":123456789,"name":"Fern","tag":"é"}\n',
  ];
  const end = Buffer.from(lines.join(""));
  for (let into = 0; into <= end.length; into++) {
    const filler = 1024 * 1024 - into - before.length;
    const content = Buffer.concat([Buffer.from(`${before}${" ".repeat(filler - 1)}\n`), end]);
    const file = await openLog(t, content);
    const faults: LineFault[] = [];
    const onFault = (fault: LineFault) => faults.push(fault);
    const scan = await LogScan.run(file, content.length, { onFault });
    const start = before.length + filler;
    assert.deepEqual(scan.tail, { offset: content.length, line: 8 });
    assert.deepEqual(
      faults.map(({ kind, position }) => [kind, position.offset - start, position.line]),
      [
        ["unreadable", 42, 4],
        ["repeat", 107, 7],
      ],
    );
    const offsets = [1n, 123456789n, -98765n, 123456789012345678n].map((id) => scan.index.get(id));
    assert.deepEqual(offsets, [0, start, start + 44, start + 70]);
    assert.deepEqual([scan.index.size, scan.end.records], [4, 5]);
    assert.equal(scan.end.crc32, crc32(content));
    await file.close();
  }
});
