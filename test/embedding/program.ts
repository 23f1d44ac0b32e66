/** A program of a user, with the packed library installed beside it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { createToken } from "../../src/index.ts";
import { installLibrary, linkPackages, ROOT } from "../support/package.ts";

const HERE = path.join(ROOT, "test/embedding");

/** A folder with the library, and the frameworks that are asked for. */
export async function settleIn(t: TestContext, frameworks: readonly string[]): Promise<string> {
  const folder = await installLibrary(t);
  linkPackages(folder, HERE, frameworks);
  cpSync(path.join(HERE, "any-port.mjs"), path.join(folder, "any-port.mjs"));
  return folder;
}

export interface Garden {
  readonly folder: string;
  readonly data: string;
  /** A live token. */
  readonly token: string;
}

/** The same, with a data directory in it. */
export async function settleGarden(
  t: TestContext,
  frameworks: readonly string[] = [],
): Promise<Garden> {
  const folder = await settleIn(t, frameworks);
  const data = path.join(folder, "data");
  mkdirSync(data, { mode: 0o700 });
  return { folder, data, token: await createToken(data, { name: "test" }) };
}

interface RunningProgram {
  readonly url: string;
  /** Its output so far. */
  stdout(): string;
  stderr(): string;
}

/** Starts a program that prints where it listens; it is killed when the test ends. */
export async function startProgram(
  t: TestContext,
  { folder, data }: Garden,
  words: readonly string[],
): Promise<RunningProgram> {
  const child: ChildProcess = spawn(process.execPath, words, {
    cwd: folder,
    env: { ...process.env, DATA: data, PORT: "0" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  let stdout = "";
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const ended = once(child, "close");
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      const ready = /listening on (\S+)\n/.exec(stdout)?.[1];
      if (ready !== undefined) resolve(ready);
    });
    ended.then(() => reject(new Error(`it ended before it was ready: ${stderr}`)), reject);
  });
  return {
    url,
    stdout: () => stdout,
    stderr: () => stderr,
  };
}
