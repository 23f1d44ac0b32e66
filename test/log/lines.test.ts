/** The reader finds the same lines wherever its blocks end, and says where a line cannot be read. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RECORD_BYTES_MAX } from "../../src/core/options.ts";
import type { Block, LineSource } from "../../src/log/lines.ts";
import { LINE_FEED, readBlocks, readExactly, readLine } from "../../src/log/lines.ts";

/** A file in memory that returns what it is asked for. */
function sourceOf(content: Buffer): LineSource {
  return {
    path: "/log",
    read: async (buffer, position) => content.copy(buffer, 0, position, position + buffer.length),
  };
}

/** Each block takes the memory of the one before, so they are copied. */
async function blocksOf(content: Buffer, end = content.length, blockBytes = 2 ** 20) {
  const blocks: Block[] = [];
  for await (const block of readBlocks(sourceOf(content), 0, end, blockBytes, true)) {
    blocks.push({ ...block, bytes: Buffer.from(block.bytes) });
  }
  return blocks;
}

const anyText = fc.string({ unit: fc.constantFrom("a", "é", "\0", "\n", "\n"), maxLength: 60 });

test("blocks join to the whole lines between two places, whatever their length", async () => {
  await fc.assert(
    fc.asyncProperty(anyText, fc.nat(60), fc.nat(60), async (text, blockBytes, cutBytes) => {
      const content = Buffer.from(text);
      const end = Math.max(0, content.length - cutBytes);
      const blocks = await blocksOf(content, end, blockBytes + 1);
      let offset = 0;
      for (const block of blocks) {
        assert.deepEqual([block.offset, block.isPiece], [offset, false]);
        assert.equal(block.bytes.at(-1), LINE_FEED);
        offset += block.bytes.length;
      }
      assert.equal(offset, content.subarray(0, end).lastIndexOf(LINE_FEED) + 1);
      assert.ok(
        Buffer.concat(blocks.map(({ bytes }) => bytes)).equals(content.subarray(0, offset)),
      );
    }),
  );
});

const RECORD = "x".repeat(RECORD_BYTES_MAX - 1);

for (const [what, content, expected] of [
  ["as long as a record may be", `a\n${RECORD}\nb\n`, ["2", `${RECORD_BYTES_MAX}`, "2"]],
  ["a byte longer", `a\n${RECORD}x\nb\n`, ["2", `piece ${RECORD_BYTES_MAX}`, "piece 1", "2"]],
  [
    "much longer, and the last",
    `a\n${RECORD}${"x".repeat(2 ** 20)}yz`,
    ["2", `piece ${RECORD_BYTES_MAX}`, "piece 1048576", "piece 1"],
  ],
  ["as long, without its line feed", RECORD, []],
] as const) {
  test(`a line that is ${what} is read in blocks of ${expected.join(", ") || "nothing"}`, async () => {
    const bytes = Buffer.from(content);
    const blocks = await blocksOf(bytes);
    const found = blocks.map((block) => `${block.isPiece ? "piece " : ""}${block.bytes.length}`);
    assert.deepEqual(found, expected);
    const whole = Buffer.concat(blocks.map((block) => block.bytes));
    assert.ok(bytes.subarray(0, whole.length).equals(whole));
  });
}

for (const length of [0, 511, 512, 8191, 8192, 200_000, RECORD_BYTES_MAX - 1]) {
  test(`a line of ${length} bytes is read at its offset`, async () => {
    const line = "x".repeat(length);
    const source = sourceOf(Buffer.from(`first\n${line}\nlast\n`));
    const read = await readLine(source, 6, length + 12);
    assert.ok(read.equals(Buffer.from(line)));
  });
}

test("a line without its line feed, or without an end, is corruption", async () => {
  const corruption = { code: "corruption", message: /byte offset 2/ };
  await assert.rejects(readLine(sourceOf(Buffer.from("a\nbcd\n")), 2, 5), corruption);
  const endless = Buffer.alloc(4 * RECORD_BYTES_MAX, "x");
  await assert.rejects(readLine(sourceOf(endless), 2, endless.length), corruption);
});

test("a file that became shorter is an io_error", async () => {
  const source = sourceOf(Buffer.from("a\nb\n"));
  await assert.rejects(readExactly(source, 2, Buffer.alloc(9)), { code: "io_error" });
  const reading = async () => {
    for await (const _ of readBlocks(source, 0, 9));
  };
  await assert.rejects(reading(), { code: "io_error" });
});
