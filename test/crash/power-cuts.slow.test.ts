/**
 * Power cuts of a disk with ext4: what a server acknowledged before the cut is there afterwards, also if other
 * programs wrote its files and synced nothing. `npm run crash -- --power-cuts N` runs more rounds.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createToken } from "../../src/index.ts";
import { type RunningServer, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { readLog, writeLog } from "../support/stores.ts";
import { Book, Load, repeat } from "./load.ts";
import { canCutPower, execute, LoopDisk } from "./loop-disk.ts";

const ROUNDS = Number(process.env.CRASH_CUTS ?? 1);
const LOAD_MS_MAX = 400;
/** Fewer and more than a batch, whose bytes a start reads before it serves. */
const PLANTS = [100, 12_000] as const;

/** What was acknowledged before the cut, and the server that ends with the power. */
interface Life {
  readonly token: string;
  readonly book: Book;
  readonly server: RunningServer;
}

type Scenario = (t: TestContext, folder: string) => Promise<Life & { stop?(): Promise<void> }>;

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  async "under load"(t, folder) {
    const token = await createToken(folder, { name: "crash" });
    const book = new Book();
    const server = await startServer(t, ["--data", folder]);
    const load = new Load({ url: server.url, token }, book);
    await sleep(Math.random() * LOAD_MS_MAX);
    const stop = async () => {
      await load.stop();
      assert.deepEqual(load.wrong, []);
    };
    return { token, book, server, stop };
  },

  async "after a start on a folder that was copied and not synced"(t, folder) {
    const source = makeFolder(t);
    const token = await createToken(source, { name: "crash" });
    const book = new Book();
    book.sent = PLANTS[Math.round(Math.random())] ?? 0;
    const plants = Array.from({ length: book.sent }, (_, plant) => plant);
    writeLog(source, plants.map((plant) => `${book.line(plant)}\n`).join(""));
    execute("cp", "-a", `${source}/.`, folder);
    const server = await startServer(t, ["--data", folder]);
    const repeated = plants.filter((plant) => plant % Math.ceil(book.sent / 200) === 0);
    assert.deepEqual(await repeat({ url: server.url, token }, book, repeated), []);
    return { token, book, server };
  },
};

for (const [when, live] of Object.entries(SCENARIOS)) {
  const timeout = 60_000 + ROUNDS * 30_000;
  test(`a power cut ${when} takes nothing that was acknowledged`, { timeout }, async (t) => {
    if (!canCutPower(t)) return;
    for (let round = 1; round <= ROUNDS; round++) {
      await t.test(`round ${round}`, async (t) => {
        const disk = new LoopDisk(t);
        const folder = join(disk.folder, "data");
        execute("mkdir", "-m", "700", folder);
        const { token, book, server, stop } = await live(t, folder);
        await disk.cut(server.process.pid ?? 0);
        await stop?.();
        const next = await startServer(t, ["--data", folder]);
        assert.deepEqual(book.findFaults(readLog(folder)), []);
        assert.deepEqual(await repeat({ url: next.url, token }, book, book.sample(20)), []);
        await next.stop("SIGKILL");
        t.diagnostic(`${book.acknowledged} plants acknowledged`);
      });
    }
  });
}

test("a cut keeps what was synced, and nothing else", async (t) => {
  if (!canCutPower(t)) return;
  const disk = new LoopDisk(t);
  const [synced, written] = [join(disk.folder, "synced"), join(disk.folder, "written")];
  writeFileSync(synced, "content");
  disk.sync();
  writeFileSync(written, "content");
  await disk.cut();
  assert.equal(readFileSync(synced, "utf8"), "content");
  assert.equal(existsSync(written), false);
});
