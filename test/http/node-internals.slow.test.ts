/** The contract on a version of Node on which the server uses only what Node documents. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { TIMEOUT } from "../support/watch.ts";

const FILES = readdirSync(path.join(ROOT, "test/http")).filter((file) =>
  /^contract(?:-[a-z]+)?\.test\.ts$/.test(file),
);

/** What differs, and what Node does not document for it: docs/architecture.md says so, too. */
const DIFFERS: Readonly<Record<string, string>> = {
  "a client that sends everything before it reads gets the refusal, with a long body directly after it":
    "closeBy",
  "a client that sends everything before it reads gets the refusal, with a long body later after it":
    "closeBy",
  "nothing after a refusal that Node closes by itself is carried out": "willClose",
  "a request that follows a refusal during a body is not read": "ignoreFollowing",
};

test("the contract holds with nothing that Node does not document", TIMEOUT, async () => {
  const imports = FILES.map((file) => `import "./test/http/${file}";`).join("\n");
  const words = [
    process.execPath,
    ...["--import", "tsx", "--import", "./test/support/unknown-node.mjs"],
    ...["--test-reporter=tap", "--input-type=module", "-e", imports],
  ];
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = await runToEnd(words, { cwd: ROOT, env });
  const tests = [...stdout.matchAll(/^(not )?ok \d+ - (.*)$/gm)];
  const names = new Set(tests.map(([, , name]) => name));
  for (const name of Object.keys(DIFFERS)) assert.ok(names.has(name), name);
  const failed = tests.filter(([, not]) => not !== undefined).map(([, , name = ""]) => name);
  const others = failed.filter((name) => !Object.hasOwn(DIFFERS, name));
  assert.deepEqual(others, [], stdout);
});
