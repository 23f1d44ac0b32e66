/** What a budget lends by default, in containers of several sizes. */
import assert from "node:assert/strict";
import { totalmem } from "node:os";
import { test } from "node:test";
import { defaultBudget, memoryLeft } from "../src/memory.ts";

const MIB = 1024 * 1024;
const RSS = 60 * MIB;

const LIMITS: readonly [what: string, limit: number | undefined, budgetMib: number][] = [
  ["without a limit", 2 ** 64, 64],
  ["that does not tell its limit", 0, 64],
  ["of a system that knows no limits", undefined, 64],
  ["of 512 MiB", 512 * MIB, 64],
  ["of 256 MiB", 256 * MIB, 49],
  ["of 128 MiB", 128 * MIB, 17],
  ["that has 16 MiB left", RSS + 16 * MIB, 4],
  ["whose memory is all taken", RSS, 4],
  ["that is smaller than the process", 32 * MIB, 4],
];

for (const [what, limit, budgetMib] of LIMITS) {
  test(`in a container ${what} a budget lends ${budgetMib} MiB by default`, (t) => {
    t.mock.method(process, "constrainedMemory", () => limit); // FAKE: a process has one container
    t.mock.method(process, "memoryUsage", () => ({ rss: RSS }));
    const most = Math.min(64 * MIB, Math.floor((totalmem() - RSS) / 4)); // of a small machine
    assert.equal(defaultBudget(), Math.min(budgetMib * MIB, most));
    assert.ok(memoryLeft() >= 16 * MIB);
  });
}
