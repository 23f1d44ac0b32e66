/** Log files with a known content, for one test each. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { LogFile } from "../../src/log/file.ts";
import { makeFolder } from "./folders.ts";

/** A log that holds exactly these bytes, open for reading and appending until the test ends. */
export async function openLog(t: TestContext, content: string | Buffer = ""): Promise<LogFile> {
  const path = join(makeFolder(t), "test.jsonl");
  writeFileSync(path, content, { mode: 0o600 });
  const file = await LogFile.open(path);
  t.after(() => file.close());
  return file;
}
