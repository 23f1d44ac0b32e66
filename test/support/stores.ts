/** Stores, logs and token files in folders of a test, the bytes in them, and what reads return. */

import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { crc32 } from "node:zlib";
import type { TokenRegistry } from "../../src/auth/token-registry.ts";
import type { VerifiedToken } from "../../src/core/services.ts";
import { PlantStore, type PlantStoreOptions } from "../../src/index.ts";
import { checkpointPath } from "../../src/log/checkpoint.ts";
import { LogFile } from "../../src/log/file.ts";
import { atEnd, makeFolder } from "./folders.ts";

/** Opens the folder; the store is closed when the test ends, if it is still open. */
export async function openStore(
  t: TestContext,
  folder: string,
  options?: PlantStoreOptions,
): Promise<PlantStore> {
  const store = await PlantStore.open(folder, options);
  atEnd(t, () => store.close());
  return store;
}

export function logPath(folder: string): string {
  return join(folder, "plants.jsonl");
}

export function readLog(folder: string): string {
  return fs.readFileSync(logPath(folder), "utf8");
}

/** Writes a log as an earlier process or an editor may have left it. */
export function writeLog(folder: string, content: string | Buffer): void {
  fs.writeFileSync(logPath(folder), content, { mode: 0o600 });
}

/** Writes a checkpoint of a log that began with these bytes. */
export function writeCheckpointOf(folder: string, known: string | Buffer): void {
  const checkpoint = { bytes: Buffer.byteLength(known), crc32: crc32(known) };
  fs.writeFileSync(checkpointPath(logPath(folder)), `${JSON.stringify(checkpoint)}\n`);
}

/** Everything that an iteration yields, in order. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** The files in the folder that this process has open. */
export function openFilesIn(folder: string): string[] {
  return fs.readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const path = fs.readlinkSync(join("/proc/self/fd", fd));
      return path.startsWith(folder) ? [path] : [];
    } catch {
      return []; // a thread of Node has closed it meanwhile
    }
  });
}

/** The content of every file, by its name; sockets are left out. */
export function snapshot(folder: string): Record<string, string> {
  const files = fs.readdirSync(folder).filter((name) => fs.statSync(join(folder, name)).isFile());
  return Object.fromEntries(
    files.sort().map((name) => [name, fs.readFileSync(join(folder, name), "latin1")]),
  );
}

/** FAKE: the reads of a store without plants. */
export const NO_READS = {
  getLine: async (): Promise<Uint8Array | undefined> => undefined,
  async *listLines(): AsyncGenerator<Uint8Array> {},
};

/** The plants of slices of lines. */
export async function linesOf(slices: AsyncIterable<Uint8Array>): Promise<string[]> {
  let text = "";
  for await (const slice of slices) text += Buffer.from(slice).toString();
  return text.split("\n").slice(0, -1);
}

/** A log that holds exactly these bytes, open for reading and appending until the test ends. */
export async function openLog(t: TestContext, content: string | Buffer = ""): Promise<LogFile> {
  const path = join(makeFolder(t), "test.jsonl");
  fs.writeFileSync(path, content, { mode: 0o600 });
  const file = await LogFile.open(path);
  atEnd(t, () => file.close());
  return file;
}

/** What another process may do to a log that this process has opened. */
export const MEDDLING: Readonly<Record<string, (path: string) => void>> = {
  "appended to": (path) => fs.appendFileSync(path, '{"id":9}\n'),
  cut: (path) => fs.truncateSync(path, 4),
  "replaced by a copy": (path) => {
    fs.copyFileSync(path, `${path}.new`);
    fs.renameSync(`${path}.new`, path);
  },
};

export function tokenPath(folder: string): string {
  return join(folder, "tokens.jsonl");
}

export function readTokens(folder: string): string {
  return fs.readFileSync(tokenPath(folder), "utf8");
}

/** Writes it as an editor does. */
export function writeTokens(folder: string, content: string): void {
  fs.writeFileSync(tokenPath(folder), content, { mode: 0o600 });
}

/** Gives the file other contents in one step, which no poll can see half of. */
export function replaceTokens(folder: string, content: string): void {
  fs.writeFileSync(`${tokenPath(folder)}~`, content, { mode: 0o600 });
  fs.renameSync(`${tokenPath(folder)}~`, tokenPath(folder));
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
