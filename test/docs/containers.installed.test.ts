/** The memory of the image, in containers of several sizes. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { readPage } from "../support/docs.ts";
import { makeMemoryCgroup } from "../support/memory-cgroup.ts";
import { installNode } from "../support/nodes.ts";
import { runToEnd } from "../support/run.ts";

const MIB = 1024 * 1024;
/** V8's share for young objects, which no option of the image bounds. */
const YOUNG_BYTES_MAX = 48 * MIB;

/** The Node that the image is built with; skips the test if npm cannot install it. */
function findNode(t: TestContext): string | undefined {
  const [, version = ""] = /^FROM node:(\d+)/m.exec(readPage("docs/Dockerfile")) ?? [];
  try {
    return installNode(version);
  } catch {
    t.skip(`needs Node.js ${version}, which npm could not install`);
    return undefined;
  }
}

const [, NODE_OPTIONS = ""] = /NODE_OPTIONS=(\S+)/.exec(readPage("docs/Dockerfile")) ?? [];

for (const size of [64, 128, 256, 512, 1024]) {
  test(`in a container of ${size} MiB the heap takes two fifths of it`, async (t) => {
    const node = findNode(t);
    const cgroup = makeMemoryCgroup(t, size * MIB);
    if (typeof cgroup === "string") return t.skip(cgroup);
    if (node === undefined) return;
    const print = "process.stdout.write(String(v8.getHeapStatistics().heap_size_limit))";
    const readLimit = async (env: Record<string, string>) => {
      const { status, stdout, stderr } = await runToEnd([...cgroup.wrapper, node, "-e", print], {
        env: { PATH: process.env.PATH, ...env },
      });
      assert.equal(status, 0, stderr);
      return Number(stdout);
    };
    const limit = await readLimit({ NODE_OPTIONS });
    const share = Math.floor(size * 0.4) * MIB;
    assert.ok(share <= limit && limit <= share + YOUNG_BYTES_MAX, `${limit}`);
    if (size < 256) assert.ok((await readLimit({})) > size * MIB, "it bounds nothing");
    assert.equal(cgroup.kills(), 0);
  });
}
