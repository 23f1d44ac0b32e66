/** What a test leaves behind when it ends: nothing. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

const works = new WeakMap<TestContext, (() => unknown)[]>();

/** Does work when the test ends, the last one first: a store is closed before its folder is removed. */
export function atEnd(t: TestContext, work: () => unknown): void {
  const all = works.get(t) ?? [];
  if (all.push(work) > 1) return;
  works.set(t, all);
  t.after(async () => {
    for (const each of all.reverse()) await each();
  });
}

/** An empty folder (0700) for this test. */
export function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-test-"));
  atEnd(t, () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}
