/** What a server reports to its admin listener. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Notice, printNotice, reportTo } from "../../src/cli/output.ts";
import { ServeStatus } from "../../src/cli/serve-status.ts";

test("a start that reads the log for 2 s logs its progress once, a shorter start does not (fake clock)", (t) => {
  let now = 5000;
  t.mock.method(performance, "now", () => now);
  const notices: Notice[] = [];
  reportTo((notice) => notices.push(notice));
  t.after(() => reportTo(printNotice));
  const status = new ServeStatus("/data");
  assert.equal(status.progress, undefined);

  for (const [ms, bytes] of [
    [7000, 0],
    [8999, 40_000_000],
    [9000, 42_000_000],
    [12_000, 90_000_000],
  ] as const) {
    now = ms;
    status.reading(bytes, 120_000_000);
    assert.equal(notices.length, ms < 9000 ? 0 : 1);
    assert.deepEqual(status.progress, { bytes, total: 120_000_000 });
  }
  assert.deepEqual(notices, [
    {
      level: "info",
      event: "starting",
      message: "reading the log: 35 % of 120.0 MB so far",
      fields: { bytes: 42_000_000, total: 120_000_000 },
    },
  ]);
});

test("a poll shows the disk of the folder; a file system without blocks has none", async () => {
  for (const [folder, isKnown] of [
    ["/", true],
    ["/proc", false],
    ["/missing", false],
    [undefined, false],
  ] as const) {
    const status = new ServeStatus(folder);
    await status.pollDisk();
    assert.equal(status.disk !== undefined, isKnown, folder);
  }
});

test("a disk that has not responded by the next poll is unknown", async () => {
  const status = new ServeStatus("/");
  await status.pollDisk();
  const slow = status.pollDisk();
  assert.notEqual(status.disk, undefined);
  await status.pollDisk();
  assert.equal(status.disk, undefined);
  await slow;
  assert.notEqual(status.disk, undefined);
});
