/** A token log on disk, as bytes. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export function tokenLogPath(folder: string): string {
  return join(folder, "tokens.jsonl");
}

export function readTokenLog(folder: string): string {
  return readFileSync(tokenLogPath(folder), "utf8");
}

/** Puts a log there as if an earlier process, or an editor, had left it. */
export function writeTokenLog(folder: string, content: string): void {
  writeFileSync(tokenLogPath(folder), content, { mode: 0o600 });
}
