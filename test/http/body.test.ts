/** How a body is collected, and how much memory that takes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { BodyCollector } from "../../src/http/body.ts";
import { usedBytes } from "../support/memory.ts";

/** A collector, its results, and how many bytes it was lent. */
function collect(bytesMax: number, declared = 0, lentMax = Number.POSITIVE_INFINITY) {
  const results: { body: Buffer | undefined; code: string | undefined }[] = [];
  const lent: number[] = [];
  const hold = (bytes: number) => {
    const room = (bytes - 1024) / 3; // beside the body its record, its answer and a head
    if (room > lentMax) return false;
    lent.push(room);
    return true;
  };
  const collector = new BodyCollector(bytesMax, declared, { client: "", hold }, (body, failure) => {
    results.push({ body, code: failure?.code });
  });
  return { collector, results, lent };
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

test("a body of the maximum length is accepted, one byte more is too large at once", () => {
  const { collector, results } = collect(5);
  collector.add(Buffer.from("12345"));
  assert.deepEqual(results, []);
  collector.add(Buffer.from("6"));
  collector.add(Buffer.from("7"));
  collector.end();
  collector.leave();
  assert.deepEqual(results, [{ body: undefined, code: "body_too_large" }]);
});

test("a body for which no room is lent is refused at once", () => {
  const { collector, results } = collect(100, 0, 5);
  collector.add(Buffer.from("1234"));
  collector.add(Buffer.from("56"));
  collector.add(Buffer.from("7"));
  assert.deepEqual(results, [{ body: undefined, code: "overloaded" }]);
});

const ROOM: readonly [how: string, declared: number, pieces: number[], lent: number[]][] = [
  ["that arrives whole takes its length", 6, [6], [6]],
  ["in pieces takes the announced length", 9, [2, 3, 4], [9, 9]],
  [
    "in pieces of no announced length takes twice what has arrived",
    0,
    [2, 3, 4, 5, 6],
    [2, 10, 28],
  ],
];

for (const [how, declared, pieces, expected] of ROOM) {
  test(`a body ${how} in memory`, () => {
    const { collector, lent } = collect(100, declared);
    for (const bytes of pieces) collector.add(Buffer.alloc(bytes, 32));
    collector.end();
    assert.deepEqual(lent, expected);
  });
}

test("a body whose client leaves is nothing to answer", () => {
  const { collector, results } = collect(5);
  collector.add(Buffer.from("123"));
  collector.leave();
  assert.deepEqual(results, [{ body: undefined, code: undefined }]);
});

test("a body in pieces of one byte takes about as much memory as its length", () => {
  const size = 200_000;
  const { collector, results, lent } = collect(size);
  for (let at = 0; at < size; at++) collector.add(Buffer.from([at % 251]));
  assert.ok((lent.at(-1) ?? 0) <= 2 * size);
  collector.end();
  assert.deepEqual(
    results[0]?.body,
    Buffer.from(Array.from({ length: size }, (_, at) => at % 251)),
  );
});

test("a collector keeps neither a body nor a promise of it, because its request lives on", async () => {
  const bytes = 16 * 1024 * 1024;
  const lease = { client: "", hold: () => true };
  const before = usedBytes();
  const collectors: BodyCollector[] = [];
  for (const end of ["end", "leave"] as const) {
    const body = await new Promise<Buffer | undefined>((resolve) => {
      const collector = new BodyCollector(2 * bytes, bytes, lease, resolve);
      collectors.push(collector);
      collector.add(Buffer.alloc(bytes));
      collector[end]();
    });
    assert.equal(body?.length, end === "end" ? bytes : undefined);
  }
  const held = usedBytes() - before;
  assert.ok(held < bytes / 2 && collectors.length === 2, `${held} bytes`);
});
