/**
 * Builds `dist/plant-store`: one executable with Node inside.
 *
 *   npm run build:executable
 *
 * The command line is bundled into one script, and Node puts the script into a copy of itself (single
 * executable application): in one step if it can (`--build-sea`, Node 25.5), or else as a blob that
 * postject injects. If `strip` is installed, the symbols of the copy are removed first, which makes it
 * about 15 % smaller. For Linux, and for the processor it is built on.
 */
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.join(HERE, "../..");

/** Whether this Node can put a script into itself. */
const KNOWS_SEA = execFileSync(process.execPath, ["--help"], { encoding: "utf8" }).includes(
  "--build-sea ",
);
const POSTJECT = path.join(HERE, "node_modules/postject/dist/cli.js");

/** Where Node looks for the blob, and the mark that it is there; both are documented by Node. */
const RESOURCE = "NODE_SEA_BLOB";
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/** @throws if a tool fails; its own message is then on standard error. */
async function buildExecutable(output: string): Promise<void> {
  const folder = fs.mkdtempSync(path.join(tmpdir(), "plant-store-executable-"));
  try {
    const script = path.join(folder, "plant-store.cjs");
    await bundle(script);
    const stripped = path.join(folder, "node");
    fs.copyFileSync(process.execPath, stripped);
    fs.chmodSync(stripped, 0o755);
    spawnSync("strip", [stripped]); // if it is installed
    fs.mkdirSync(path.dirname(output), { recursive: true });
    fs.rmSync(output, { force: true });
    const config = path.join(folder, "sea.json");
    // No code cache: it saves no measurable time, and Node warns about it if V8 has other flags.
    const assets = { "plant-store.service": path.join(ROOT, "docs/deploy/plant-store.service") };
    const settings = { main: script, assets, disableExperimentalSEAWarning: true };
    if (KNOWS_SEA) {
      fs.writeFileSync(config, JSON.stringify({ ...settings, executable: stripped, output }));
      run(process.execPath, "--build-sea", config);
    } else {
      const blob = path.join(folder, "blob");
      fs.writeFileSync(config, JSON.stringify({ ...settings, output: blob }));
      run(process.execPath, "--experimental-sea-config", config);
      run(process.execPath, POSTJECT, stripped, RESOURCE, blob, "--sentinel-fuse", FUSE);
      fs.copyFileSync(stripped, output);
    }
    fs.chmodSync(output, 0o755);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

/**
 * One script with everything that the command line imports, and the licences of that; CommonJS, which every
 * supported Node accepts.
 *
 * @throws if the driver of databases is not installed: nobody could install it later.
 */
async function bundle(output: string): Promise<void> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    metafile: true,
    entryPoints: [path.join(ROOT, "src/cli/main.ts")],
    outfile: output,
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node20",
    logLevel: "warning",
    define: { "import.meta.url": "undefined" }, // there are no files beside the executable
    external: ["pg-native"], // the driver has it only if it is installed, and the store does not use it
  });
  const folders = Object.keys(metafile.inputs).flatMap((file) => {
    return file.match(/^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/) ?? [];
  });
  const packages = [...new Set(folders)].sort();
  if (!packages.includes("node_modules/pg")) {
    throw new Error("pg is not installed; npm ci installs it");
  }
  const notices = [".", ...packages].map((folder) => readLicence(path.join(ROOT, folder)));
  fs.appendFileSync(output, `\n/*\n${notices.join("\n\n").replaceAll("*/", "* /")}\n*/\n`);
}

/** Name, version and licence of a package; some have the licence at the end of their README. */
function readLicence(folder: string): string {
  const { name, version } = JSON.parse(fs.readFileSync(`${folder}/package.json`, "utf8"));
  const files = fs.readdirSync(folder).filter((each) => /^(licen[cs]e|readme)/i.test(each));
  const [file = ""] = files.sort((a, b) => a.localeCompare(b)); // "LICENSE" comes first
  const text = fs.readFileSync(`${folder}/${file}`, "utf8");
  const notice = text.slice(Math.max(0, text.search(/^#+ *licen[cs]e/im))).trim();
  if (/copyright/i.test(notice)) return `${name} ${version}\n\n${notice}`;
  throw new Error(`${folder}: expected a licence`);
}

/**
 * Installs postject if this Node needs it and it is missing.
 *
 * @throws if it cannot be installed.
 */
export function installTools(): void {
  if (KNOWS_SEA || fs.existsSync(POSTJECT)) return;
  run("npm", "ci", "--loglevel=error", "--prefix", HERE);
}

/** Runs a tool; its output is shown only if it fails. */
function run(program: string, ...args: readonly string[]): void {
  const { status, error, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return;
  process.stderr.write(`${stdout ?? ""}${stderr ?? ""}`);
  throw error ?? new Error(`${path.basename(program)} ended with ${status}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const output = path.join(ROOT, "dist/plant-store");
  installTools();
  await buildExecutable(output);
  const { size } = fs.statSync(output);
  process.stdout.write(`${output}: ${(size / 1e6).toFixed(0)} MB\n`);
}
