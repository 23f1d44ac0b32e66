/** That nobody can choose ids which collide. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { IdHash, SEED_BYTES } from "../../src/store/id-hash.ts";
import { IdIndex } from "../../src/store/id-index.ts";

function hashesOf(index: { hashOf(low: number, high: number): number }): number[] {
  return Array.from({ length: 4 }, (_, n) => index.hashOf(n, -n));
}

test("every index hashes with a seed of its own, unless it is told one", () => {
  assert.notDeepEqual(hashesOf(new IdIndex()), hashesOf(new IdIndex()));
  const seed = new Uint8Array(SEED_BYTES).fill(5);
  assert.deepEqual(hashesOf(new IdIndex(0, seed)), hashesOf(new IdIndex(0, seed)));
});

test("ids that all have one home under a seed are spread under another, as any are", () => {
  const [known, secret] = [1, 2].map((byte) => new IdHash(new Uint8Array(SEED_BYTES).fill(byte)));
  /** The first ten bits, which say where in a table of 1024 homes an id belongs. */
  const homeOf = (hash: IdHash | undefined, id: number) => (hash?.of(id, 0) ?? 0) >>> 22;
  const chosen: number[] = [];
  for (let id = 0; chosen.length < 512; id++) if (homeOf(known, id) === 7) chosen.push(id);
  const homes = new Set(chosen.map((id) => homeOf(secret, id)));
  // 512 thrown into 1024 at random hit 403 on average.
  assert.ok(homes.size > 350 && homes.size < 450, `${homes.size} homes`);
});
