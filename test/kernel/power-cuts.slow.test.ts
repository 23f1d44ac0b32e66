/**
 * Power cuts of a real file system: what was acknowledged before the cut is there afterwards, also if other
 * programs wrote the files and synced nothing. `npm run crash` cuts 25 times in each scenario, or KERNEL_CUTS.
 *
 * Control: the same program with its syncs taken away must lose something in each scenario.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { revokeToken } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { Book, range, startLoad } from "./load.ts";
import { type LoopDisk, makeLoopDisk } from "./loop-disk.ts";
import { execute } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const CUTS = Number(process.env.KERNEL_CUTS ?? 2);
const MOMENT_MS_MAX = 400;

/** A data directory before and after a cut. */
class Life extends Trial {
  readonly book = new Book();
  /** Whether a command ends before the cut, or is amid its work. */
  isWhole = true;
  /** The process that ends with the power, if it is not the server. */
  command: ChildProcess | undefined;

  /** Makes a folder on another disk with a token and plants, which were not acknowledged yet. */
  async makeSource(): Promise<Trial> {
    const source = new Trial(this.t);
    this.token = await source.createToken();
    this.book.sent = Math.random() < 0.5 ? 100 : 12_000; // less and more than a batch
    writeLog(source.folder, this.book.lines(0, this.book.sent));
    return source;
  }

  acknowledge(plants = this.book.sent): void {
    for (const plant of range(0, plants)) this.book.acknowledged.add(plant);
  }

  /** Runs a command to its end, or for a random time. Returns whether it has ended, and what it prints. */
  async runAwhile(...words: readonly string[]) {
    const env = { ...process.env, ...this.under.env };
    const child = spawn(process.execPath, [PROGRAM, ...words], { env });
    this.command = child;
    const printed = text(child.stdout);
    const ended = once(child, "close");
    await (this.isWhole ? ended : Promise.race([ended, sleep(Math.random() * MOMENT_MS_MAX)]));
    assert.ok(!this.isWhole || child.exitCode === 0, words.join(" "));
    return { isDone: child.exitCode === 0, printed };
  }

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
    execute("cp", "-a", `${(await life.makeSource()).folder}/.`, life.folder);
    await life.start();
    await life.book.createAll(life.target, range(0, life.book.sent, life.book.sent / 100));
    return () => life.check();
  },

  async "after a start on a log to which another program appended"(life) {
    const { book, folder } = life;
    book.sent = 200;
    await life.start();
    await book.createAll(life.target, range(0, 100));
    await life.end("SIGTERM");
    fs.appendFileSync(logPath(folder), book.lines(100, 200));
    await life.start();
    await book.createAll(life.target, range(100, 200));
    return () => life.check();
  },

  async "of a restore"(life) {
    const { book, folder } = life;
    const backup = join(makeFolder(life.t), "backup");
    assert.equal(await (await life.makeSource()).run(["backup", backup]), 0);
    const { isDone } = await life.runAwhile("restore", backup, "--data", folder);
    return async () => {
      if (!isDone) {
        // It is whole, not there, or refused as unfinished; repeated into an empty folder it is whole.
        const { status, stdout } = await runCli(["export", "--data", folder]);
        if (status === 0 && stdout !== "" && stdout !== book.lines(0, book.sent)) return ["a part"];
        fs.rmSync(folder, { recursive: true });
        assert.equal(await life.run(["restore", backup]), 0);
      }
      life.acknowledge();
      return life.check();
    };
  },

  async "of a backup"(life) {
    const source = await life.makeSource();
    const restored = new Life(life.t, join(makeFolder(life.t), "restored"));
    restored.token = life.token;
    restored.acknowledge(life.book.sent);
    await source.start();
    const stop = startLoad(source.target, life.book);
    const copy = join(life.folder, "copy");
    const { isDone } = await life.runAwhile("backup", copy, "--data", source.folder);
    return async () => {
      await stop();
      await source.end("SIGKILL");
      restored.book.sent = life.book.sent;
      if ((await restored.run(["restore", copy])) === 0) return restored.check();
      return isDone ? restored.messages : [];
    };
  },

  async "of a token command"(life) {
    const [last, revoked] = [await life.createToken("last"), await life.createToken("revoked")];
    await revokeToken(life.folder, "revoked");
    /** Whether each is accepted, if that is known. */
    const expected = new Map([
      [await life.createToken("kept"), true],
      [revoked, false],
    ]);
    const isRevocation = Math.random() < 0.5;
    const words = isRevocation ? ["revoke", "last"] : ["create", "next"];
    const { isDone, printed } = await life.runAwhile("token", ...words, "--data", life.folder);
    return async () => {
      if (isDone) expected.set(isRevocation ? last : (await printed).trim(), !isRevocation);
      await life.start();
      const faults: string[] = [];
      for (const [token, isLive] of expected) {
        const outcome = await life.create(plant(1), token);
        if ((outcome === 200) !== isLive) faults.push(`expected ${isLive}, got ${outcome}`);
      }
      await life.end("SIGKILL");
      return faults;
    };
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

async function cutOnce(t: TestContext, disk: LoopDisk, when: string, isWhole: boolean, env = {}) {
  const life = new Life(t, join(disk.folder, "data"));
  fs.rmSync(life.folder, { recursive: true, force: true });
  fs.mkdirSync(life.folder, { mode: 0o700 });
  execute("sync", "--file-system", disk.folder);
  Object.assign(life, { isWhole, under: { env } });
  const findFaults = await SCENARIOS[when]?.(life);
  await disk.cut(life.command?.pid ?? life.pid);
  life.under = {};
  return findFaults?.() ?? [];
}

for (const when of Object.keys(SCENARIOS)) {
  for (const kind of ["ext4", "xfs"] as const) {
    test(`${kind}: a power cut ${when} takes nothing acknowledged`, {
      timeout: 60_000 * (CUTS + 1),
    }, async (t) => {
      const disk = makeLoopDisk(t, kind);
      for (let cut = 1; disk !== undefined && cut <= CUTS; cut++) {
        assert.deepEqual(await cutOnce(t, disk, when, cut % 2 === 1), [], `cut ${cut}`);
        if (cut === CUTS) t.diagnostic(`${cut} cuts`);
      }
    });
  }
  test(`control: without syncs, a power cut ${when} takes something`, TIMEOUT, async (t) => {
    const disk = makeLoopDisk(t, "ext4");
    let faults: string[] = [];
    for (let cut = 0; disk !== undefined && cut < 10 && faults.length === 0; cut++) {
      faults = await cutOnce(t, disk, when, true, { NODE_OPTIONS: MODULE });
    }
    if (disk !== undefined) assert.notDeepEqual(faults, []);
  });
}
