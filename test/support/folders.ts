/** Temporary folders, one for each test, gone when it ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** An empty folder (0700) of this test's own. */
export function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-test-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
