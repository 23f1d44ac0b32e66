/** A table of command lines: what is typed into the program, and what it prints and returns. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { readLog, snapshot, writeLog } from "../support/stores.ts";

export interface Row {
  /** `DATA` is the data directory, `NEW` a path that is free, `FILE` a file with `stdin`. */
  readonly args: string;
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The log at the last clean stop; missing: the folder is empty. */
  readonly log?: string;
  /** The log as it was edited since. */
  readonly edited?: string;
  /** The file of the tokens. */
  readonly tokens?: string;
  readonly status: number;
  /** A text is the whole output, a pattern a part of it; missing: nothing is printed. */
  readonly stdout?: string | RegExp;
  readonly stderr?: string | RegExp;
  /** The log afterwards; missing: the folder is as before, unless the status is 0. */
  readonly after?: string;
}

/** What would control a terminal, or make a line look like another one. */
export const CONTROLS = /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029\ufeff]/u;

function compare(actual: string, expected: string | RegExp = ""): void {
  if (typeof expected === "string") assert.equal(actual, expected);
  else assert.match(actual, expected);
}

/** Runs each row in folders of its own. A run mostly waits for its process, so several run at once. */
export function testRows(title: string, rows: readonly Row[]): void {
  describe(title, { concurrency: 3 }, () => {
    for (const row of rows) {
      const files = row.edited === undefined && row.tokens === undefined ? "" : " (edited)";
      const input = row.stdin === undefined ? "" : ` < ${JSON.stringify(row.stdin).slice(0, 40)}`;
      test(`plant-store ${row.args}${input}${files} ends with ${row.status}`, (t) => run(t, row));
    }
  });
}

async function run(t: TestContext, row: Row): Promise<void> {
  const { log, edited = log, tokens, stdin = "", status, after } = row;
  const [DATA, other] = [makeFolder(t), makeFolder(t)];
  if (log !== undefined && edited !== undefined) {
    writeLog(DATA, log);
    await (await PlantStore.open(DATA)).close();
    writeLog(DATA, edited);
  }
  if (tokens !== undefined) writeFileSync(join(DATA, "tokens.jsonl"), tokens);
  const places = Object.entries({ DATA, NEW: join(other, "new"), FILE: join(other, "file") });
  writeFileSync(join(other, "file"), stdin);
  const before = snapshot(DATA);
  const args = row.args.split(" ").map((word) => {
    return places.reduce(
      (text, [name, place]) => text.replace(RegExp(`\\b${name}\\b`), place),
      word,
    );
  });
  const env = { PLANT_STORE_DATA: DATA, PLANT_STORE_PORT: "0", ...row.env };
  const end = await runCli(args.filter(Boolean), { env, stdin, cwd: other });
  const shown = (text: string) =>
    places.reduce((shortened, [name, place]) => shortened.replaceAll(place, name), text);
  assert.equal(end.status, status, end.stderr);
  compare(shown(end.stdout), row.stdout);
  compare(shown(end.stderr), row.stderr);
  assert.doesNotMatch(end.stderr, CONTROLS);
  if (status !== 0) assert.equal(existsSync(join(other, "new")), false);
  if (after !== undefined) assert.equal(readLog(DATA), after);
  else if (status !== 0) assert.deepEqual(snapshot(DATA), before);
}
