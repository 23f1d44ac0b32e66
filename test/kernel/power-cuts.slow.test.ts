/**
 * Power cuts of a real file system: what was acknowledged before the cut is there afterwards, also if another
 * program wrote the files and synced nothing. The simulation has the same of every command. `npm run crash` cuts 25 times in each scenario, or KERNEL_CUTS.
 *
 * Control: the same program with its syncs taken away must lose something in each scenario.
 */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { Book, range, startLoad } from "./load.ts";
import { type LoopDisk, makeLoopDisk } from "./loop-disk.ts";
import { execute } from "./machine.ts";
import { Trial } from "./trial.ts";

const CUTS = Number(process.env.KERNEL_CUTS ?? 2);
const MOMENT_MS_MAX = 400;

/** A data directory before and after a cut. */
class Life extends Trial {
  readonly book = new Book();

  /** Serves after the cut: a start that is refused is a fault. */
  async check(): Promise<string[]> {
    try {
      await this.start();
    } catch (error) {
      return [String(error)];
    }
    await this.book.createAll(this.target, this.book.sample(20));
    await this.end("SIGKILL");
    return this.book.findFaults(readLog(this.folder));
  }
}

/** What happens before a cut. Each returns how to find what is wrong after it. */
const SCENARIOS: Readonly<Record<string, (life: Life) => Promise<() => Promise<string[]>>>> = {
  async "under load"(life) {
    await life.start();
    const stop = startLoad(life.target, life.book);
    await sleep(Math.random() * MOMENT_MS_MAX);
    return () => stop().then(() => life.check());
  },

  async "after a start on a folder that was copied and not synced"(life) {
    const source = new Trial(life.t);
    life.token = await source.createToken();
    life.book.sent = Math.random() < 0.5 ? 100 : 12_000; // less and more than a batch
    writeLog(source.folder, life.book.lines(0, life.book.sent));
    execute("cp", "-a", `${source.folder}/.`, life.folder);
    await life.start();
    await life.book.createAll(life.target, range(0, life.book.sent, life.book.sent / 100));
    return () => life.check();
  },
};

/** Takes every sync from a program: those of calls, and that of each write. */
const WITHOUT_SYNCS = `
import fs from "node:fs";
import promises from "node:fs/promises";
const handle = await promises.open("/dev/null");
Object.getPrototypeOf(handle).sync = async () => {};
fs.fsyncSync = () => {};
const { O_DSYNC, O_SYNC } = fs.constants;
const { open } = promises;
promises.open = (path, flags, mode) =>
  open(path, typeof flags === "number" ? flags & ~(O_DSYNC | O_SYNC) : flags, mode);
await handle.close();
`;
const MODULE = `--import=data:text/javascript,${encodeURIComponent(WITHOUT_SYNCS)}`;

async function cutOnce(t: TestContext, disk: LoopDisk, when: string, env = {}) {
  const life = new Life(t, join(disk.folder, "data"));
  fs.rmSync(life.folder, { recursive: true, force: true });
  fs.mkdirSync(life.folder, { mode: 0o700 });
  execute("sync", "--file-system", disk.folder);
  life.under = { env };
  const findFaults = await SCENARIOS[when]?.(life);
  await disk.cut(life.pid);
  life.under = {};
  return findFaults?.() ?? [];
}

for (const when of Object.keys(SCENARIOS)) {
  const limit = { timeout: 60_000 * (CUTS + 1) };
  test(`a power cut ${when} takes nothing acknowledged`, limit, async (t) => {
    const disk = makeLoopDisk(t);
    for (let cut = 1; disk !== undefined && cut <= CUTS; cut++) {
      assert.deepEqual(await cutOnce(t, disk, when), [], `cut ${cut}`);
    }
  });
  test(`control: without syncs, a power cut ${when} takes something`, TIMEOUT, async (t) => {
    const disk = makeLoopDisk(t);
    let faults: string[] = [];
    for (let cut = 0; disk !== undefined && cut < 10 && faults.length === 0; cut++) {
      faults = await cutOnce(t, disk, when, { NODE_OPTIONS: MODULE });
    }
    if (disk !== undefined) assert.notDeepEqual(faults, []);
  });
}
