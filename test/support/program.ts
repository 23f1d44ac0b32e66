/**
 * The program under test as one file, bundled from the current sources. With a loader each start would
 * take eight times as long.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, buildSync } from "esbuild";

/** Options to bundle the program into a folder of its own, which is removed when the process ends. */
export function bundleOptions() {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-build-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755); // tests run the program as another user, too
  return {
    entryPoints: [fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url))],
    outfile: join(folder, "main.mjs"),
    bundle: true,
    format: "esm",
    platform: "node",
    external: ["pg"], // as in the package; no driver is beside the bundle
    logLevel: "warning",
  } satisfies BuildOptions;
}

const options = bundleOptions();
buildSync(options);

/** The file that Node runs. */
export const PROGRAM = options.outfile;
