import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { LineWriter } from "../../src/cli/line-writer.ts";
import { until } from "../support/watch.ts";
import { mountSmallDisk, remount } from "./machine.ts";

const DISK_BYTES = 64 * 1024;
/** So many lines that some wait and the others are dropped. */
const LINES = 3000;

test("while the disk of a log file is full, lines wait or are dropped and counted, and no line is torn", async (t) => {
  const folder = mountSmallDisk(t, "64k");
  if (folder === undefined) return;
  const path = join(folder, "log");
  const fd = openSync(path, "w");
  t.after(() => closeSync(fd));
  const filler = join(folder, "filler");
  writeFileSync(filler, Buffer.alloc(DISK_BYTES));
  const writer = new LineWriter<string>(fd, String, (lines) => `lost ${lines}`);
  for (let at = 0; at < LINES; at++) writer.write(String(at).padStart(999, "-"));
  await sleep(50); // the first lines are handed to a thread
  await assert.rejects(writeFile(filler, "x", { flag: "a" }), { code: "ENOSPC" }); // as the write of the lines did
  remount(folder, "size=8m");
  await until("the loss is reported", () => /^lost [0-9]+\n$/m.test(readFileSync(path, "utf8")));
  const lines = readFileSync(path, "utf8").split("\n");
  const lost = Number(lines.at(-2)?.slice("lost ".length));
  const kept = lines.slice(0, -2);
  assert.deepEqual(
    kept,
    kept.map((_, at) => String(at).padStart(999, "-")),
  );
  assert.equal(kept.length + lost, LINES);
  assert.ok(kept.length > 1000, `${kept.length} were kept`);
});
