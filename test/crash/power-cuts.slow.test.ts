/** The short form of `npm run crash -- --power-cuts 50`. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { CUT_SCENARIOS, runPowerCuts } from "./cut-rounds.ts";
import { FILE_SYSTEMS, LoopDisk, whyNoLoopDisk } from "./loop-disk.ts";
import { BUILT } from "./program.ts";
import { Random } from "./random.ts";

const PROMISES: Readonly<Record<string, string>> = {
  "copied folder": "a plant of a folder that was just copied is on disk before it is answered 200",
  "appended lines": "a line that was just added to the log is on disk before it is answered 200",
  "token file edited": "a token that a command reports as revoked stays revoked after a power cut",
};

const reason = whyNoLoopDisk("ext4");

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

for (const [name, promise] of Object.entries(PROMISES)) {
  test(promise, { skip: reason ?? false, timeout: 120_000 }, async (t) => {
    const scenario = CUT_SCENARIOS.find((each) => each.name === name);
    assert.ok(scenario !== undefined, `there is a scenario "${name}"`);
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(
      `npm run crash -- --power-cuts 2 --only "${name}" --file-system ext4 --seed ${seed}`,
    );
    const random = new Random(seed);
    const totals = await runPowerCuts(BUILT, scenario, { fileSystem: "ext4", rounds: 2, random });
    assert.deepEqual(totals.faults, []);
    assert.deepEqual([totals.lost, totals.failedStarts], [0, 0]);
    assert.equal(totals.kills, 2);
    assert.ok(totals.acknowledged > 0, "something was reported before the cuts");
  });
}
