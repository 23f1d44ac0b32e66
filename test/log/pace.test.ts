import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import timers from "node:timers/promises";
import { Pace } from "../../src/log/pace.ts";
import { moduleArgs } from "../support/run.ts";

/** Takes the processor for so long. */
function work(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

test("a rest is as long as the share asks for, counted from the end of the one before", async (t) => {
  // FAKE time: a real clock would have to be waited for, and tells something else every time.
  let now = 1000;
  const rests: number[] = [];
  t.mock.method(performance, "now", () => now);
  t.mock.method(timers, "setTimeout", async (ms: number) => {
    rests.push(Math.round(ms));
    now += 12_345;
  });
  for (const share of [0.5, 0.2, 0.05, 1]) {
    const pace = new Pace(share, new AbortController().signal);
    for (const worked of [4, 40]) {
      now += worked;
      await pace.rest();
    }
  }
  assert.deepEqual(rests, [4, 40, 16, 160, 76, 760]);
});

test("a rest after a piece that was held up is ten minutes at most", async (t) => {
  let now = 0;
  const rests: number[] = [];
  t.mock.method(performance, "now", () => now);
  t.mock.method(timers, "setTimeout", async (ms: number) => {
    rests.push(ms);
  });
  const pace = new Pace(0.5, new AbortController().signal);
  for (const worked of [600_000, 600_001, 2 ** 31]) {
    now += worked;
    await pace.rest();
  }
  assert.deepEqual(rests, [600_000, 600_000, 600_000]);
});

test("a share of one is no rest, but an end all the same once it is asked for", async () => {
  const controller = new AbortController();
  const pace = new Pace(1, controller.signal);
  work(1);
  await pace.rest();
  controller.abort();
  await assert.rejects(pace.rest(), { name: "AbortError" });
});

test("a rest under way ends at once when it is asked to", async () => {
  const controller = new AbortController();
  const pace = new Pace(1e-9, controller.signal);
  work(1);
  const resting = pace.rest(); // for ten minutes
  controller.abort();
  await assert.rejects(resting, { name: "AbortError" });
});

test("a rest keeps no process alive", () => {
  const file = new URL("../../src/log/pace.ts", import.meta.url).href;
  const program = `
    const { Pace } = await import(${JSON.stringify(file)});
    const pace = new Pace(1e-9, new AbortController().signal);
    const end = performance.now() + 5;
    while (performance.now() < end);
    void pace.rest();
    process.exitCode = 7;
  `;
  const { status } = spawnSync(process.execPath, moduleArgs(program), { timeout: 30_000 });
  assert.equal(status, 7);
});
