/** A server whose plants are on disk only, for tests in which the disk or the memory fails. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { errorNumber, send } from "../support/service.ts";
import { writeLog } from "../support/stores.ts";
import { Trial, type TrialOptions } from "./trial.ts";

/** Longer than the records that are read together. */
export const LONG = "x".repeat(100_000);
export const NDJSON = { Accept: "application/x-ndjson" };

/** Starts a server on a log of these lines, with a token that may create and read. */
export async function startWith(
  t: TestContext,
  lines: readonly string[],
  options: Omit<TrialOptions, "folder" | "reuseToken"> = {},
): Promise<Trial> {
  const folder = makeFolder(t);
  writeLog(folder, lines.map((line) => `${line}\n`).join(""));
  const reuseToken = await createToken(folder, { name: "both", scopes: ["write", "read"] });
  const env = { UV_USE_IO_URING: "0", ...options.env }; // the trace would not show it
  return Trial.start(t, { ...options, folder, reuseToken, env });
}

/** 200, or the number of the error. */
export async function get(trial: Trial, path: string, headers: Record<string, string> = {}) {
  const all = { Authorization: `Bearer ${trial.token}`, ...headers };
  const answer = await send(`${trial.server.url}${path}`, { headers: all });
  if (answer.status === 503) assert.equal(answer.headers.get("retry-after"), "1");
  return answer.status === 200 ? 200 : errorNumber(answer);
}
