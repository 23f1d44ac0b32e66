import assert from "node:assert/strict";
import { test } from "node:test";
import { logLinesOf } from "../support/messages.ts";
import { runModule } from "../support/run.ts";

/** The log of a program that runs this script, in JSON. */
async function logOf(script: string) {
  const { stderr } = await runModule(`
    import { channel } from "node:diagnostics_channel";
    import { startLog } from "${new URL("../../src/cli/log.ts", import.meta.url)}";
    startLog("json", "info");
    const answer = (path) => channel("plant-store:request").publish({
      method: "POST", path, status: 200, durationMs: 1, bodyBytes: 2, requestId: "a",
      cut: false,
    });
    ${script}`);
  return logLinesOf(stderr);
}

test("the line of a request has the time of its answer, even if it is made later", async () => {
  const lines = await logOf(`
    for (const time of [1000, 2000, 9000]) {
      Date.now = () => time;
      answer("/" + time);
    }
    Date.now = () => 20_000;`);
  assert.deepEqual(
    lines.map(({ time, path }) => [time, path]),
    [
      ["1970-01-01T00:00:01.000Z", "/1000"],
      ["1970-01-01T00:00:02.000Z", "/2000"],
      ["1970-01-01T00:00:09.000Z", "/9000"],
    ],
  );
});

test("a line that cannot be made is replaced by a log-fault at its time, and no other line is lost", async () => {
  const lines = await logOf(`
    Date.now = () => 1000;
    answer("/1"); answer(Symbol("path")); answer("/3");
    Date.now = () => 20_000;`);
  const time = "1970-01-01T00:00:01.000Z";
  assert.deepEqual(
    lines.map((line) => [line.time, line.event, line.level, line.path]),
    [
      [time, "request", "info", "/1"],
      [time, "log-fault", "error", undefined],
      [time, "request", "info", "/3"],
    ],
  );
});
