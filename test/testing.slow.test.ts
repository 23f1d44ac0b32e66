/** The contract, as HTTP clients see it, over the store in memory of `plant-store/testing`. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT } from "./support/package.ts";
import { runToEnd } from "./support/run.ts";
import { TIMEOUT } from "./support/watch.ts";

const FOLDER = path.join(ROOT, "test/http");

/** The other files are about a store that drains or fails as a log does. */
const FILES = readdirSync(FOLDER)
  .filter((file) => /^contract.*(?<!\.slow)\.test\.ts$/.test(file))
  .map((file) => path.join(FOLDER, file));

/** Nothing waits for a disk here. */
const DIFFERENT = ["a record for which the queue has no room is answered 50301"];

test("the contract holds over the test store", TIMEOUT, async () => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const words = [process.execPath, "--import", "tsx", "--test", "--test-reporter=tap", ...FILES];
  const { stdout } = await runToEnd(words, {
    cwd: ROOT,
    env: { ...env, TEST_MEMORY: "1" },
  });
  const failed = Array.from(stdout.matchAll(/^not ok \d+ - (.*)$/gm), ([, name = ""]) => name);
  assert.deepEqual(failed, DIFFERENT, stdout);
  assert.match(stdout, /^# pass [1-9]/m);
});
