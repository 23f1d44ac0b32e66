import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { FileNode } from "./inode.ts";
import { Random } from "./random.ts";
import { RuleBook } from "./rules.ts";
import { simulate, WORLDS } from "./runner.ts";

test("no simulated crash, rot or meddling loses, changes or invents a plant or a token", async () => {
  const seed = randomInt(1_000_000_000);
  const options = { worlds: WORLDS, seed, seconds: 4, processes: 1, isShrunk: true };
  assert.deepEqual((await simulate(options)).failures, []);
});

/** What a hundred power cuts leave of a file. */
function cuts(change: (file: FileNode, random: Random) => void): Set<string> {
  const images = Array.from({ length: 100 }, (_, at) => {
    const file = new FileNode();
    change(file, new Random(at));
    return file.afterCut(new Random(at), new RuleBook()).bytes.toString();
  });
  return new Set(images);
}

const [old, added] = ["a".repeat(600), "b".repeat(600)];

test("a power cut keeps what was synced, and any sector of the rest", () => {
  const images = cuts((file) => {
    file.append(Buffer.from(old));
    file.commitAll();
    file.append(Buffer.from(added));
  });
  for (const image of images) assert.ok(image.startsWith(old), image);
  const zeros = `${old}${"b".repeat(424)}${"\0".repeat(176)}`;
  for (const image of [old, old + added, zeros]) assert.ok(images.has(image));
});

test("what a failed sync lost stays lost, whatever a later sync says", () => {
  const images = cuts((file, random) => {
    file.append(Buffer.from(old));
    file.fail(file.dirt(), random);
    file.commitAll();
  });
  assert.ok(images.size > 1);
});
