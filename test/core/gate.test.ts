import assert from "node:assert/strict";
import { test } from "node:test";
import { Gate } from "../../src/core/gate.ts";

interface Work {
  readonly name: string;
  end(): void;
  fail(error: Error): void;
}

test("a gate runs at most its number of tasks at once, and the others in order", async () => {
  const gate = new Gate(2);
  const begun: Work[] = [];
  const pass = (name: string) =>
    gate.pass(
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
  assert.equal(await gate.pass(async () => "f"), "f");
});

test("clients take turns at a gate, no matter how much one of them waits for", async () => {
  const gate = new Gate(1);
  const order: string[] = [];
  const pass = (name: string, client: string) => gate.pass(async () => order.push(name), client);
  await Promise.all([
    ...[1, 2, 3, 4].map((at) => pass(`a${at}`, "a")),
    ...[1, 2].map((at) => pass(`b${at}`, "b")),
    pass("c1", "c"),
  ]);
  assert.deepEqual(order, ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]);
});
