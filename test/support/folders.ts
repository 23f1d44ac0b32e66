/** Temporary folders for tests, removed when the test ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { until } from "./watch.ts";

/** An empty folder (0700) for this test. */
export function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-test-"));
  t.after(() => until("the folder is gone", () => removes(folder)));
  return folder;
}

/** Returns false if a file was written meanwhile, by a store that is closed later. */
function removes(folder: string): boolean {
  try {
    rmSync(folder, { recursive: true, force: true });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTEMPTY") return false;
    throw error;
  }
}
