/** The package as a user gets it: packed from a copy of the clone, and installed in an empty folder. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { makeFolder } from "./folders.ts";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Everything that goes into the package or is needed to build it. */
const PAGES = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "docs"];
const SOURCES = ["package.json", "tsconfig.json", "src", ...PAGES];

const run = promisify(execFile);

/** One tarball for each test file, made by the first test that needs it, and removed when the process ends. */
let packing: Promise<string> | undefined;

async function pack(): Promise<string> {
  const folder = fs.mkdtempSync(path.join(tmpdir(), "plant-store-pack-"));
  process.once("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
  const clone = path.join(folder, "clone");
  fillClone(clone);
  await run("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: clone });
  return path.join(folder, fs.readdirSync(folder).find((file) => file.endsWith(".tgz")) ?? "");
}

/** Makes a copy of the clone, in which everything is installed. */
export function fillClone(folder: string): void {
  copySources(folder, SOURCES);
  linkPackages(folder, ROOT, ["."]);
}

/** A git repository with the current sources of the package, committed or not. */
export async function makeRepository(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  copySources(folder, [...SOURCES, "package-lock.json", ".npmrc", ".gitignore"]);
  const author = ["-c", "user.name=somebody", "-c", "user.email=somebody@plants.example"];
  for (const words of [["init"], ["add", "."], [...author, "commit", "-m", "All there is"]]) {
    await run("git", words, { cwd: folder });
  }
  return folder;
}

function copySources(folder: string, sources: readonly string[]): void {
  for (const source of sources) {
    fs.cpSync(path.join(ROOT, source), path.join(folder, source), { recursive: true });
  }
}

/** A folder in which only the package is installed, and nothing from a registry. */
export async function installLibrary(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  packing ??= pack();
  const words = ["install", "--offline", "--no-audit", "--no-fund", await packing];
  fs.writeFileSync(path.join(folder, "package.json"), '{ "name": "somebody", "private": true }\n');
  await run("npm", words, { cwd: folder });
  return folder;
}

/** Links packages from a folder that has them installed, so that the programs in `folder` can import them. */
export function linkPackages(folder: string, from: string, names: readonly string[]): void {
  for (const name of names) {
    const link = path.join(folder, "node_modules", name);
    fs.mkdirSync(path.dirname(link), { recursive: true });
    fs.symlinkSync(path.join(from, "node_modules", name), link);
  }
}
