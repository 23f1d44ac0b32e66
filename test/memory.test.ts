/** What a budget lends by default, in containers of several sizes. */
import assert from "node:assert/strict";
import { totalmem } from "node:os";
import { test } from "node:test";
import { defaultBudget } from "../src/memory.ts";

const MIB = 1024 * 1024;

const LIMITS: readonly [what: string, limit: number | undefined, budgetMib: number][] = [
  ["without a limit", 2 ** 64, 64],
  ["that does not tell its limit", 0, 64],
  ["of a system that knows no limits", undefined, 64],
  ["of 1 GiB", 1024 * MIB, 32],
  ["of 256 MiB", 256 * MIB, 8],
  ["of 64 MiB", 64 * MIB, 4],
];

for (const [what, limit, budgetMib] of LIMITS) {
  test(`in a container ${what} a budget lends ${budgetMib} MiB by default`, (t) => {
    t.mock.method(process, "constrainedMemory", () => limit); // FAKE: a process has one container
    const most = Math.max(4 * MIB, Math.floor(totalmem() / 32)); // of a small machine
    assert.equal(defaultBudget(), Math.min(budgetMib * MIB, most));
  });
}
