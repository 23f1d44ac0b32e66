/** Log files with a known content, for one test each. */
import { appendFileSync, copyFileSync, renameSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { LogFile } from "../../src/log/file.ts";
import { atEnd, makeFolder } from "./folders.ts";

/** A log that holds exactly these bytes, open for reading and appending until the test ends. */
export async function openLog(t: TestContext, content: string | Buffer = ""): Promise<LogFile> {
  const path = join(makeFolder(t), "test.jsonl");
  writeFileSync(path, content, { mode: 0o600 });
  const file = await LogFile.open(path);
  atEnd(t, () => file.close());
  return file;
}

/** What another process may do to a log that this process has opened. */
export const MEDDLING: Readonly<Record<string, (path: string) => void>> = {
  "appended to": (path) => appendFileSync(path, '{"id":9}\n'),
  cut: (path) => truncateSync(path, 4),
  "replaced by a copy": (path) => {
    copyFileSync(path, `${path}.new`);
    renameSync(`${path}.new`, path);
  },
};
