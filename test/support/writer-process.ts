/** A process of its own that writes lines with a LineWriter. */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { makeFolder } from "./folders.ts";

/** A program that writes lines to a standard error that only the test reads. */
export function writeUnread(t: TestContext, script: string) {
  return spawnWriter(t, script, "pipe") as ChildProcessWithoutNullStreams;
}

/**
 * The program is bundled first, because the loader of the tests would start a process that shares
 * standard error and makes it blocking.
 */
export function spawnWriter(t: TestContext, script: string, stderr: "pipe" | number): ChildProcess {
  const contents = `
    import { spawnSync } from "node:child_process";
    import { LineWriter } from "./line-writer.ts";
    import { openStandardError } from "./log.ts";
    const writer = new LineWriter(openStandardError(), String, (lines) => "lost " + lines);
    ${script}`;
  const resolveDir = fileURLToPath(new URL("../../src/cli/", import.meta.url));
  const outfile = join(makeFolder(t), "writer.mjs");
  const options = { bundle: true, format: "esm", platform: "node", outfile } as const;
  buildSync({ ...options, stdin: { contents, resolveDir } });
  const child = spawn(process.execPath, [outfile], { stdio: ["pipe", "pipe", stderr] });
  t.after(() => child.kill("SIGKILL"));
  return child;
}
