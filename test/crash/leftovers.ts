/** Folders, mounts and processes that go when the run ends, be it by Ctrl-C. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const pending = new Set<() => void>();

process.on("exit", () => {
  for (const remove of [...pending].reverse()) remove();
});

/** Makes sure that it is done, at the latest at the exit; the result does it now. */
export function removeAtExit(remove: () => void): () => void {
  const once = () => {
    if (pending.delete(once)) remove();
  };
  pending.add(once);
  return once;
}

export interface TemporaryFolder {
  readonly path: string;
  remove(): void;
}

export function makeTemporaryFolder(what: string): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), `plant-store-${what}-`));
  return {
    path,
    remove: removeAtExit(() => rmSync(path, { recursive: true, force: true, maxRetries: 5 })),
  };
}
