import assert from "node:assert/strict";
import { test } from "node:test";
import { turn } from "../../src/clock.ts";
import { Semaphore } from "../../src/core/semaphore.ts";

test("a semaphore runs at most its number of tasks at once, and the others in order", async () => {
  const semaphore = new Semaphore(2);
  const begun: { name: string; end: () => void; fail: (error: Error) => void }[] = [];
  const names = ["a", "b", "c", "d", "e"];
  const passed = names.map((name) =>
    semaphore.run(() => new Promise<void>((end, fail) => void begun.push({ name, end, fail }))),
  );
  const running = async () => {
    await turn();
    return begun.map(({ name }) => name).join("");
  };
  assert.equal(await running(), "ab");
  begun[1]?.end();
  assert.equal(await running(), "abc");
  const failure = new Error("no");
  begun[0]?.fail(failure);
  await assert.rejects(passed[0] as Promise<void>, failure);
  assert.equal(await running(), "abcd", "a failed task makes room for the next");
  for (const task of begun) task.end();
  assert.equal(await running(), "abcde");
  begun.at(-1)?.end();
  await Promise.all(passed.slice(1));
  assert.equal(await semaphore.run(async () => "f"), "f");
});
