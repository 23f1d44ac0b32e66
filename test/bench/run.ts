/** `npm run bench -- NAME [options]`: runs the program of that name in this folder, with the store built. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const NAMES = [
  "creates",
  "slices",
  "peers",
  "database",
  "stream",
  "cold-reads",
  "slow-disk",
  "start",
  "scale",
  "tokens",
  "logging",
];

const [name = ""] = process.argv.splice(2, 1); // the program reads the options that are left
if (NAMES.includes(name)) {
  if (name === "database") install("test/postgres");
  await import(`./${name}.ts`);
} else {
  process.stderr.write(
    `npm run bench -- NAME, of: ${NAMES.join(", ")}; NAME --help has its options\n`,
  );
  process.exitCode = 2;
}

function install(folder: string): void {
  const cwd = fileURLToPath(new URL(`../../${folder}`, import.meta.url));
  const { status } = spawnSync("npm", ["ci", "--silent"], { cwd, stdio: "inherit" });
  if (status !== 0) throw new Error(`npm ci --prefix ${folder} has failed`);
}
