/** A token log on disk, as bytes, and tokens that many create in it at once. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createToken, type NewToken, PlantStoreError } from "../../src/index.ts";

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

/**
 * Creates a token, however long the disk takes over those before it: who has waited
 * in vain for their end comes again.
 */
export async function createInTurn(folder: string, token: NewToken): Promise<string> {
  for (;;) {
    try {
      return await createToken(folder, token);
    } catch (error) {
      if (!(error instanceof PlantStoreError) || error.code !== "locked") throw error;
    }
  }
}
