/** A worker of node:cluster that waits in vain for its data directory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { forkWorker, serveArgs, urlOf } from "../support/workers.ts";

test("a worker of node:cluster whose data directory another worker keeps ends with 1, naming the holder", async (t) => {
  const folder = makeFolder(t);
  const first = forkWorker(t, serveArgs(folder));
  const url = await urlOf(first);
  const { status, stderr } = await forkWorker(t, serveArgs(folder)).finished;
  assert.equal(status, 1);
  assert.ok(messagesOf(stderr).at(-1)?.includes(`process ${first.process.pid},`), stderr);
  assert.equal((await fetch(`${url}/plants`)).status, 401);
});
