/** A table of command lines: what is typed into the program, and what it prints and returns. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { readLog, writeLog } from "../support/stores.ts";

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

/** Makes the data directory of a row. */
export async function prepare(t: TestContext, row: Partial<Row>): Promise<string> {
  const folder = makeFolder(t);
  if (row.log !== undefined) {
    writeLog(folder, row.log);
    await (await PlantStore.open(folder)).close();
    writeLog(folder, row.edited ?? row.log);
  }
  if (row.tokens !== undefined) writeFileSync(join(folder, "tokens.jsonl"), row.tokens);
  return folder;
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
      test(`plant-store ${row.args}${input}${files} ends with ${row.status}`, async (t) => {
        const [data, other] = [await prepare(t, row), makeFolder(t)];
        const [free, file] = [join(other, "new"), join(other, "file")];
        writeFileSync(file, row.stdin ?? "");
        const before = snapshot(data);
        const places: readonly [RegExp, string][] = [
          [/\bDATA\b/, data],
          [/\bNEW\b/, free],
          [/\bFILE\b/, file],
        ];
        const args = row.args.split(" ").map((word) => {
          return places.reduce((text, [name, place]) => text.replace(name, place), word);
        });
        const env = { PLANT_STORE_DATA: data, PLANT_STORE_PORT: "0", ...row.env };
        const end = await runCli(args.filter(Boolean), { env, stdin: row.stdin ?? "", cwd: other });
        const shown = (text: string) =>
          text.replaceAll(data, "DATA").replaceAll(free, "NEW").replaceAll(file, "FILE");
        assert.equal(end.status, row.status, end.stderr);
        compare(shown(end.stdout), row.stdout);
        compare(shown(end.stderr), row.stderr);
        assert.doesNotMatch(end.stderr, CONTROLS);
        if (row.status !== 0) assert.equal(existsSync(free), false);
        if (row.after !== undefined) assert.equal(readLog(data), row.after);
        else if (row.status !== 0) assert.deepEqual(snapshot(data), before);
      });
    }
  });
}
