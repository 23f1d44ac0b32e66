/** How a body is collected, and how much memory that takes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { BodyCollector, isDirectSafe } from "../../src/http/body.ts";
import { Budget } from "../../src/http/budget.ts";
import { usedBytes } from "../support/memory.ts";

/** A collector, and its results. */
function collect(bytesMax: number, budget = new Budget(bytesMax)) {
  const results: { body: Buffer | undefined; code: string | undefined }[] = [];
  const collector = new BodyCollector(bytesMax, budget, (body, failure) => {
    results.push({ body, code: failure?.code });
  });
  return { collector, results, budget };
}

test("a body is its chunks in order, no matter where they were cut", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (chunks) => {
      const { collector, results } = collect(10_000);
      for (const chunk of chunks) collector.add(Buffer.from(chunk));
      collector.end();
      assert.deepEqual(results, [{ body: Buffer.concat(chunks), code: undefined }]);
    }),
  );
});

test("a Uint8Array is accepted as bytes, and anything else ends the body at once", () => {
  const foreign = runInNewContext("new Uint8Array([49, 50])");
  for (const bytes of [new Uint8Array([49, 50]), Buffer.from("xx12").subarray(2), foreign]) {
    const { collector, results } = collect(10);
    collector.add(bytes);
    collector.add(Buffer.from("3"));
    collector.end();
    assert.deepEqual(results, [{ body: Buffer.from("123"), code: undefined }]);
  }
  for (const chunk of ["12", 12, { length: 2 }, [49, 50], new Uint16Array(1), undefined, {}]) {
    const { collector, results, budget } = collect(10);
    collector.add(Buffer.from("1"));
    collector.add(chunk);
    collector.end();
    assert.deepEqual(results, [{ body: undefined, code: "internal" }]);
    assert.equal(budget.take(10), true, "its bytes were given back");
  }
});

test("a body of the maximum length is accepted, one byte more is too large at once", () => {
  const { collector, results, budget } = collect(5, new Budget(100));
  collector.add(Buffer.from("12345"));
  assert.deepEqual(results, []);
  collector.add(Buffer.from("6"));
  collector.add(Buffer.from("7"));
  collector.end();
  collector.leave();
  assert.deepEqual(results, [{ body: undefined, code: "body_too_large" }]);
  assert.equal(budget.take(100), true, "its bytes were given back");
});

test("a body for which there is no memory is refused and returns the memory it took", () => {
  const { collector, results, budget } = collect(100, new Budget(5));
  collector.add(Buffer.from("1234"));
  collector.add(Buffer.from("56"));
  assert.deepEqual(results, [{ body: undefined, code: "overloaded" }]);
  assert.equal(budget.take(5), true);
});

test("a body whose client leaves returns the memory it took, and nothing is answered", () => {
  const { collector, results, budget } = collect(5);
  collector.add(Buffer.from("123"));
  collector.leave();
  assert.deepEqual(results, [{ body: undefined, code: undefined }]);
  assert.equal(budget.take(5), true);
});

test("a body in pieces of one byte takes about as much memory as its length", () => {
  const size = 200_000;
  const { collector, results } = collect(size);
  const before = usedBytes();
  for (let at = 0; at < size; at++) collector.add(Buffer.from([at % 251]));
  const grown = usedBytes() - before;
  assert.ok(grown < 10 * size, `${grown} bytes for a body of ${size}`);
  collector.end();
  assert.deepEqual(
    results[0]?.body,
    Buffer.from(Array.from({ length: size }, (_, at) => at % 251)),
  );
});

test("only versions of Node that the tests run on take bodies from the parser", () => {
  assert.equal(isDirectSafe(), true);
  for (const [versions, isSafe] of [
    [{ node: "20.19.0" }, true],
    [{ node: "26.1.0" }, true],
    [{ node: "27.0.0" }, false],
    [{ node: "24.0.0", deno: "2.5.0" }, false],
    [{ node: "24.3.0", bun: "1.3.0" }, false],
  ] as const) {
    assert.equal(isDirectSafe(versions as NodeJS.ProcessVersions), isSafe);
  }
});

test("only the borrower that holds all lent memory may exceed the budget", () => {
  const budget = new Budget(100);
  assert.equal(budget.take(60), true);
  assert.equal(budget.take(60), false);
  assert.equal(budget.take(60, 50), false);
  assert.equal(budget.take(60, 60), true);
  assert.equal(budget.take(1), false);
  budget.giveBack(120);
  assert.equal(budget.take(101), false);
});
