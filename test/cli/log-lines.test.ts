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
    const publish = (path, token) => channel("plant-store:request").publish({
      method: "POST", path, status: 200, durationMs: 1, bodyBytes: 2, requestId: "a",
      cut: false, token,
    });
    const answer = (path) => publish(path, "gardener");
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
