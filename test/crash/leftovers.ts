/** Removes folders, mounts and processes when the run ends, also after Ctrl-C. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const pending = new Set<() => void>();

// Without a handler a signal ends the process at once.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

process.on("exit", () => {
  for (const remove of [...pending].reverse()) remove();
});

/** Registers an action for the exit, and returns a function that carries it out at once. */
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
