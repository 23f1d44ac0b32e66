/** The bytes of a token log on disk, tokens that are created at the same time, and verdicts on tokens. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  createToken,
  type NewToken,
  PlantStoreError,
  type TokenRegistry,
  type VerifiedToken,
} from "../../src/index.ts";

export function tokenLogPath(folder: string): string {
  return join(folder, "tokens.jsonl");
}

export function readTokenLog(folder: string): string {
  return readFileSync(tokenLogPath(folder), "utf8");
}

/** Writes a log as an earlier process or an editor may have left it. */
export function writeTokenLog(folder: string, content: string): void {
  writeFileSync(tokenLogPath(folder), content, { mode: 0o600 });
}

/**
 * Creates a token, no matter how long other creates take: an attempt that did not get the lock in time
 * is repeated.
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

/** The verdict of a registry that has looked at its tokens within 2 s, and so answers at once. */
export function judge(registry: TokenRegistry, token: string): VerifiedToken | undefined {
  const verdict = registry.verify(token);
  assert.ok(!(verdict instanceof Promise), "the verdict waits for a look");
  return verdict;
}
