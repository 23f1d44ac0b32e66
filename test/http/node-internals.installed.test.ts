/** What the server uses of Node without documentation, on every version of Node on which it is on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TESTED } from "../../src/http/node-internals.ts";
import { installNode } from "../support/nodes.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";

/** The probe itself, and the tests that see each member work. */
const FILES = [
  "http/node-internals",
  "http/whole-answer",
  "http/pipelining",
  "http/mounted",
  "http/connections-max",
  "contract/contract",
];

for (const major of TESTED) {
  test(`each works on Node ${major}`, TIMEOUT, async (t) => {
    let node: string;
    try {
      node = installNode(`${major}`);
    } catch {
      t.skip(`needs Node.js ${major}, which npm could not install`);
      return;
    }
    const files = FILES.map((file) => `test/${file}.test.ts`);
    const words = [node, "--import", "tsx", "--test", "--test-reporter=tap", ...files];
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { status, stdout } = await runToEnd(words, { cwd: ROOT, env });
    assert.equal(status, 0, stdout);
  });
}
