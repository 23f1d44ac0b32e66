/** Compares loaded ids with a Map: which are kept, at which offsets, and which are repeats. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import type { LinePosition } from "../../src/log/lines.ts";
import { IdIndex, IdLoader } from "../../src/store/id-index.ts";
import { hashWordsOf, wordsOfId } from "../support/id-words.ts";
import { readModule } from "../support/run.ts";

const SEED = hashWordsOf(0);
const LINE_BYTES = 40;

interface Log {
  readonly ids: readonly bigint[];
  readonly offset?: number;
  readonly line?: number;
}

/** Loads ids as those of lines that follow each other, and compares. */
async function assertLoads(
  loader: IdLoader,
  index: IdIndex,
  { ids, offset: start = 0, line: first = 1 }: Log,
  oracle = new Map<bigint, number>(),
): Promise<void> {
  const expected: LinePosition[] = [];
  for (const [n, id] of ids.entries()) {
    const position = { offset: start + n * LINE_BYTES, line: first + n };
    loader.addWords(...wordsOfId(id), position.offset, position.line);
    if (oracle.has(id)) expected.push(position);
    else oracle.set(id, position.offset);
  }
  const repeats = await loader.flush();
  if (expected.length > 0) assert.equal(loader.hasRepeats, true);
  assert.deepEqual(repeats, expected);
  assert.equal(index.size, oracle.size);
  for (const [id, offset] of oracle) assert.equal(index.get(id), offset, String(id));
}

/** Enough to fill many buckets of a small loader, and to make an index grow. */
const COUNT = 60_000;

const PATTERNS: readonly [says: string, id: (n: bigint) => bigint][] = [
  ["that rise", (n) => n],
  ["that fall from -1", (n) => -1n - n],
  ["that are equal modulo 2^32", (n) => (n << 32n) + 7n],
  ["that no double holds", (n) => INT64_MAX - n],
  ["that are all the same", () => -5n],
  ["of which every second is a repeat", (n) => (n % 2n === 0n ? n : n / 2n)],
  ["that come again in the order they came in", (n) => n % 20_000n],
];

/** How many ids the index and the loader expect. */
const ESTIMATES: readonly [says: string, ofIndex: number, ofLoader: number][] = [
  ["as many as come", COUNT, COUNT],
  ["none", 0, 0],
  ["far more", 3_000_000, 3_000_000],
  ["so many that a bucket is full before all have come", 50_000_000, 50_000_000],
];

for (const [says, idOf] of PATTERNS) {
  for (const [many, ofIndex, ofLoader] of ESTIMATES) {
    test(`a loader that expects ${many} finds the same offsets of ids ${says} as a Map`, async () => {
      const index = new IdIndex(ofIndex, SEED);
      const ids = Array.from({ length: COUNT }, (_, n) => idOf(BigInt(n)));
      // Offsets and line numbers cross 2^32 half-way, so low words of either sign, and high words, are moved.
      const log = { ids, offset: 2 ** 32 - (COUNT / 2) * LINE_BYTES, line: 2 ** 32 - COUNT / 2 };
      await assertLoads(new IdLoader(index, ofLoader), index, log);
    });
  }
}

test("a loader takes no more memory for very many ids than for many", async () => {
  // In a process of its own, so that no garbage of another test is collected between two measurements.
  const grown = await readModule<number[]>(`
    import { setFlagsFromString } from "node:v8";
    import { runInNewContext } from "node:vm";
    import { IdIndex, IdLoader } from ${JSON.stringify(import.meta.resolve("../../src/store/id-index.ts"))};
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc");
    const usedBytes = () => {
      gc();
      return process.memoryUsage().arrayBuffers;
    };
    const kept = [];
    const grown = [30_000_000, 100_000_000].map((expected) => {
      const index = new IdIndex(expected);
      const before = usedBytes();
      kept.push(index, new IdLoader(index, expected));
      return usedBytes() - before;
    });
    process.stdout.write(JSON.stringify(grown));
    if (kept.some((each) => each.hasRepeats)) process.exitCode = 1; // keeps them alive up to here
  `);
  for (const bytes of grown) {
    assert.ok(bytes > 30 * 2 ** 20 && bytes < 40 * 2 ** 20, `${grown} bytes`);
  }
});

test("a loader keeps offsets and line numbers at every boundary of 32 bits, and of 2^40", async () => {
  for (const start of [2 ** 31 - 2, 2 ** 32 - 2, 2 ** 32, 2 ** 39, 2 ** 40 - 1000]) {
    const index = new IdIndex(0, SEED);
    const log = { ids: [1n, 2n, 1n, 3n, 2n], offset: start, line: start };
    await assertLoads(new IdLoader(index, 10), index, log);
  }
});

test("any ids under any seed and estimate have the same offsets as in a Map", async () => {
  const id = fc.oneof(
    fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
    fc.bigInt({ min: -200n, max: 200n }),
    fc.constantFrom(INT64_MIN, INT64_MAX),
  );
  // More than two buckets hold.
  const ids = fc.array(id, { maxLength: 8000, size: "max" });
  const seed = fc.integer({ min: 0, max: 255 }).map(hashWordsOf);
  const estimate = fc.constantFrom(0, 1000, 100_000, 10_000_000);
  await fc.assert(
    fc.asyncProperty(ids, ids, seed, estimate, estimate, async (some, others, secret, a, b) => {
      const index = new IdIndex(a, secret);
      const loader = new IdLoader(index, b);
      const oracle = new Map<bigint, number>();
      await assertLoads(loader, index, { ids: some }, oracle);
      const offset = some.length * LINE_BYTES;
      await assertLoads(loader, index, { ids: others, offset, line: some.length + 1 }, oracle);
    }),
    // Shrinking thousands of ids could take minutes.
    { numRuns: 60, interruptAfterTimeLimit: 10_000 },
  );
});
