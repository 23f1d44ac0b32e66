import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";
import { NEEDS_POSTGRES, SharedCluster } from "./stores.ts";

const cluster = new SharedCluster();
const FOLDER = path.join(ROOT, "test/http");

/** The other files are about a store that drains or fails as a log does. */
const FILES = readdirSync(FOLDER).filter((file) => /^contract.*(?<!\.slow)\.test\.ts$/.test(file));

/** What differs over a database: lists are in order of id. */
const DIFFERENT = ["plants are listed in the order of the log, each as it was created"];

for (const file of FILES) {
  test(`${file} holds over a database`, { ...NEEDS_POSTGRES, ...TIMEOUT }, async () => {
    const { cluster: server, database } = await cluster.createStore();
    const words = [process.execPath, "--import", "tsx", "--test", path.join(FOLDER, file)];
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout } = await runToEnd(words, {
      cwd: ROOT,
      env: { ...env, TEST_DATABASE: server.url(database) },
    });
    const failed = Array.from(stdout.matchAll(/^not ok \d+ - (.*)$/gm), ([, name = ""]) => name);
    const unexpected = failed.filter((name) => !DIFFERENT.includes(name));
    assert.deepEqual(unexpected, [], stdout);
    assert.match(stdout, /^# pass [1-9]/m);
  });
}
