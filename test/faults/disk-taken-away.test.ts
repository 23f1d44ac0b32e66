/** A log that another program removes or changes while a server uses it. */
import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog } from "../support/stores.ts";
import { TIMEOUT } from "../support/watch.ts";
import { assertGoesOn, plant, startRefused, Trial } from "./trial.ts";

const AT_ONCE = { concurrency: 3, ...TIMEOUT };

type Deed = readonly [what: string, deed: (path: string) => void];

/** Changes that remove acknowledged plants: no start may ignore them. */
const LOSSES: readonly Deed[] = [
  ["deleted", (path) => rmSync(path)],
  ["renamed", (path) => renameSync(path, `${path}.old`)],
  ["emptied", (path) => truncateSync(path, 0)],
  ["cut between two records", (path) => truncateSync(path, plant(1).length + 1)],
];

/** Changes that remove no plant. */
const CHANGES: readonly Deed[] = [
  [
    "replaced by a copy",
    (path) => {
      copyFileSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
    },
  ],
  ["appended to", (path) => appendFileSync(path, `${plant(9)}\n`)],
];

/** The content of every log in a folder, under any name. */
function logsIn(folder: string): [name: string, content: string][] {
  return readdirSync(folder)
    .filter((name) => /^plants\.jsonl(\.old|)$/.test(name))
    .map((name) => [name, readFileSync(join(folder, name), "utf8")]);
}

/** A server with two plants, whose log is then changed. */
async function startAnd(t: Parameters<typeof Trial.start>[0], deed: Deed[1]): Promise<Trial> {
  const trial = await Trial.start(t);
  assert.equal(await trial.create(1), 200);
  assert.equal(await trial.create(2), 200);
  deed(logPath(trial.folder));
  return trial;
}

describe(
  "a log that is removed or changed while the server runs stops it: 503, status 1",
  AT_ONCE,
  () => {
    /** Creates a plant, which makes the store fail and must not change any log. */
    const fail = async (trial: Trial) => {
      const before = logsIn(trial.folder);
      assert.equal(await trial.create(3), 50303);
      const end = await trial.ended;
      assert.deepEqual([end.status, end.signal], [1, null]);
      assert.equal(end.messages.length, 1, end.messages.join("\n"));
      assert.ok(end.messages[0]?.includes(logPath(trial.folder)), end.messages[0]);
      assert.deepEqual(logsIn(trial.folder), before, "nothing was written to it any more");
    };

    for (const [what, deed] of LOSSES) {
      test(`${what}: the next start refuses because plants are missing`, async (t) => {
        const trial = await startAnd(t, deed);
        await fail(trial);
        const before = logsIn(trial.folder);
        // A supervisor starts it again at once.
        const next = await startRefused(t, trial.folder);
        assert.deepEqual([next.status, next.signal], [3, null]);
        assert.equal(next.messages.length, 1, next.messages.join("\n"));
        assert.ok(next.messages[0]?.includes(logPath(trial.folder)), next.messages[0]);
        assert.deepEqual(logsIn(trial.folder), before, "and leaves the folder as it is");
      });
    }

    for (const [what, deed] of CHANGES) {
      test(`${what}: the next start serves`, async (t) => {
        const trial = await startAnd(t, deed);
        await fail(trial);
        assert.deepEqual(await assertGoesOn(t, trial.folder, trial.acknowledged), []);
      });
    }

    // The answer to a replay also promises that the plant is in the log.
    for (const [what, deed] of [LOSSES[0], LOSSES[2]] as Deed[]) {
      test(`${what}: also if the next request is a repeat`, async (t) => {
        const trial = await startAnd(t, deed);
        const outcome = await trial.create(1);
        const end = await (outcome === 200 ? trial.stop() : trial.ended);
        assert.deepEqual([outcome, end.status], [50303, 1]);
        assert.ok(end.messages[0]?.includes(logPath(trial.folder)), end.messages[0]);
      });
    }
  },
);

test("a data directory that is moved while the server runs stops it, and can be served from its new place", async (t) => {
  const parent = makeFolder(t);
  const trial = await Trial.start(t, { folder: join(parent, "data") });
  assert.equal(await trial.create(1), 200);
  renameSync(join(parent, "data"), join(parent, "moved"));
  assert.equal(await trial.create(2), 50303);
  assert.equal((await trial.ended).status, 1);
  assert.equal(readLog(join(parent, "moved")), `${plant(1)}\n`);
  await assertGoesOn(t, join(parent, "moved"), trial.acknowledged);
});

test("the next start at the latest notices a log that was deleted while no client wrote", async (t) => {
  const trial = await startAnd(t, (path) => rmSync(path));
  assert.equal((await trial.stop()).status, 0);
  const next = await startRefused(t, trial.folder);
  assert.deepEqual([next.status, next.messages.length], [3, 1], next.messages.join("\n"));
  assert.deepEqual(logsIn(trial.folder), []);
});
