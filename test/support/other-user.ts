/** Folders of another user, for tests that run as root. */
import { chownSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { makeFolder } from "./folders.ts";

/** A user without a name, a home or a group of its own. */
export const SERVICE = 54_321;

/** Options of a test that gives files away. */
export const NEEDS_ROOT = {
  skip: process.geteuid?.() === 0 ? false : "only root can give files away",
};

/** A data directory of that user (0700). */
export function makeServiceFolder(t: TestContext): string {
  const folder = join(makeFolder(t), "data");
  mkdirSync(folder, { mode: 0o700 });
  chownSync(folder, SERVICE, SERVICE);
  return folder;
}
