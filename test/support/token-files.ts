/** The token file on disk, and verdicts on tokens. */
import assert from "node:assert/strict";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TokenRegistry } from "../../src/auth/token-registry.ts";
import type { VerifiedToken } from "../../src/core/services.ts";

export function tokenPath(folder: string): string {
  return join(folder, "tokens.jsonl");
}

export function readTokens(folder: string): string {
  return readFileSync(tokenPath(folder), "utf8");
}

/** Writes it as an editor does. */
export function writeTokens(folder: string, content: string): void {
  writeFileSync(tokenPath(folder), content, { mode: 0o600 });
}

/** Gives the file other contents in one step, which no poll can see half of. */
export function replaceTokens(folder: string, content: string): void {
  writeFileSync(`${tokenPath(folder)}~`, content, { mode: 0o600 });
  renameSync(`${tokenPath(folder)}~`, tokenPath(folder));
}

/** Edits it in place, as some editors do. */
export function editTokens(folder: string, from: string | RegExp, to: string): void {
  writeTokens(folder, readTokens(folder).replace(from, to));
}

/** The verdict of a registry that has polled its tokens within 2 s, and so answers at once. */
export function judge(registry: TokenRegistry, token: string): VerifiedToken | undefined {
  const verdict = registry.verify(token);
  assert.ok(!(verdict instanceof Promise), "the verdict waits for a poll");
  return verdict;
}
