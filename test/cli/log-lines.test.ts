import assert from "node:assert/strict";
import { test } from "node:test";
import { type LogLine, logLinesOf } from "../support/messages.ts";
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
    const refuse = (times) => {
      for (let at = 0; at < times; at++) publish("/refused", undefined);
    };
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

/** The path of each line of a request, or the number of requests that were left out. */
function outlineOf(lines: readonly LogLine[]): unknown[] {
  return lines.map(({ path, event, lines }) => path ?? [event, lines]);
}

const TEN = Array(10).fill("/refused");

for (const [times, outline] of [
  [0, []],
  [10, TEN],
  [11, [...TEN, ["refusals-dropped", 1]]],
  [5000, [...TEN, ["refusals-dropped", 4990]]],
] as const) {
  test(`of ${times} requests in a second without a good token, at most 10 are logged, and how many are left out`, async () => {
    assert.deepEqual(outlineOf(await logOf(`refuse(${times})`)), outline);
  });
}

test("every request with a good token is logged, however many others are left out", async () => {
  const lines = await logOf(`
    for (let at = 0; at < 100; at++) {
      refuse(2);
      answer("/good");
    }`);
  assert.equal(lines.filter(({ path }) => path === "/good").length, 100);
  assert.equal(lines.filter(({ path }) => path === "/refused").length, 10);
  assert.deepEqual(outlineOf(lines).at(-1), ["refusals-dropped", 190]);
});

test("after a second ten more are logged; the number is logged then, also if no request follows", async () => {
  const lines = await logOf(`
    const { mock } = await import("node:test");
    mock.timers.enable({ apis: ["setTimeout"] });
    refuse(12);
    mock.timers.tick(1000);
    answer("/quiet");
    refuse(3);
    mock.timers.tick(1000);
    refuse(13);`);
  const ten = (dropped: number) => [...TEN, ["refusals-dropped", dropped]];
  assert.deepEqual(outlineOf(lines), [
    ...ten(2),
    "/quiet",
    ...TEN.slice(0, 3),
    ...TEN,
    ["refusals-dropped", 3],
  ]);
});
