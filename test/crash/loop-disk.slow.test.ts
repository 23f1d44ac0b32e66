/** Whether power cuts can show anything here: `npm run crash -- --power-cuts` relies on it. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { FILE_SYSTEMS, LoopDisk, whyNoLoopDisk } from "./loop-disk.ts";

for (const fileSystem of FILE_SYSTEMS) {
  const skip = whyNoLoopDisk(fileSystem) ?? false;
  test(`a cut of ${fileSystem} keeps what was synced, and nothing else`, { skip }, async (t) => {
    const disk = new LoopDisk(fileSystem);
    t.after(disk.remove);
    const [synced, written] = [join(disk.folder, "synced"), join(disk.folder, "written")];
    writeFileSync(synced, "content");
    disk.sync();
    writeFileSync(written, "content");
    await disk.cut([]);
    assert.equal(readFileSync(synced, "utf8"), "content");
    assert.equal(existsSync(written), false);
  });
}
