import assert from "node:assert/strict";
import { test } from "node:test";
import { Semaphore } from "../../src/core/semaphore.ts";

interface Work {
  readonly name: string;
  end(): void;
  fail(error: Error): void;
}

test("a semaphore runs at most its number of tasks at once, and the others in order", async () => {
  const semaphore = new Semaphore(2);
  const begun: Work[] = [];
  const pass = (name: string) =>
    semaphore.run(
      () =>
        new Promise<string>((resolve, reject) => {
          begun.push({ name, end: () => resolve(name), fail: reject });
        }),
    );
  const settled = () => new Promise(setImmediate);
  const passed = ["a", "b", "c", "d", "e"].map(pass);
  await settled();
  assert.deepEqual(
    begun.map(({ name }) => name),
    ["a", "b"],
  );
  begun[1]?.end();
  assert.equal(await passed[1], "b");
  await settled();
  assert.equal(begun.at(-1)?.name, "c");

  const failure = new Error("no");
  begun[0]?.fail(failure);
  await assert.rejects(passed[0] ?? Promise.resolve(), failure);
  await settled();
  assert.equal(begun.at(-1)?.name, "d", "a failed task makes room for the next");
  for (const work of begun) work.end();
  await settled();
  for (const work of begun) work.end();
  assert.deepEqual(await Promise.all(passed.slice(1)), ["b", "c", "d", "e"]);
  assert.equal(await semaphore.run(async () => "f"), "f");
});
