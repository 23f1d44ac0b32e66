/**
 * The program under test as one file, bundled from the current sources. With a loader each start would
 * take eight times as long.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const folder = mkdtempSync(join(tmpdir(), "plant-store-build-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
chmodSync(folder, 0o755); // tests run the program as another user, too

/** The file that Node runs. */
export const PROGRAM = join(folder, "main.mjs");

const main = new URL("../../src/cli/main.ts", import.meta.url);
buildSync({
  entryPoints: [fileURLToPath(main)],
  outfile: PROGRAM,
  bundle: true,
  format: "esm",
  platform: "node",
  define: { "import.meta.url": JSON.stringify(main.href) }, // files are beside the sources
  external: ["pg"], // as in the package; no driver is beside the bundle
  logLevel: "warning",
});
