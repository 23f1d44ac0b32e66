/** What a file on the simulated disk shows is what the disk has, once nothing is dirty, lost or under way. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Dirt, FileNode } from "./platter-file.ts";
import { Random } from "./random.ts";
import { RuleBook } from "./rules.ts";

const size = fc.nat(1600);
const STEP = fc.oneof(
  fc.record({
    act: fc.constant("write" as const),
    at: size,
    bytes: fc.integer({ min: 1, max: 700 }),
  }),
  fc.record({ act: fc.constant("truncate" as const), at: size }),
  fc.record({
    act: fc.constantFrom("begin", "commit", "fail", "abandon", "drop" as const),
    at: size,
  }),
);

test("a file that no cut can change reads as the disk has it, after any writes, cuts and failed syncs", () => {
  fc.assert(
    fc.property(fc.array(STEP, { maxLength: 25 }), fc.string(), (steps, seed) => {
      const rules = new RuleBook({ "sync: a rewrite in place stays lost": 0 });
      const random = new Random(seed);
      const node = new FileNode(1n);
      const syncs: Dirt[] = [];
      const assertShown = () => {
        if (node.isDurable) assert.equal(node.bytes.toString(), node.durable.toString());
      };
      for (const [number, step] of steps.entries()) {
        const { act, at } = step;
        if (act === "write") node.write(Buffer.alloc(step.bytes, 97 + (number % 26)), at);
        else if (act === "truncate") node.truncate(at);
        else if (act === "begin") syncs.push(node.dirt());
        else if (act === "drop") node.dropLost(rules);
        else {
          const [dirt] = syncs.splice(at % Math.max(1, syncs.length), 1);
          if (dirt === undefined) continue;
          if (act === "fail") node.fail(dirt, random, rules);
          else node[act](dirt);
        }
        assertShown();
      }
      for (const dirt of syncs) node.abandon(dirt);
      node.dropLost(rules);
      node.commitAll();
      assert.equal(node.isDurable, true);
      assertShown();
    }),
    { numRuns: 5000 },
  );
});
