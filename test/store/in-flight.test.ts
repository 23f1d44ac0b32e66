/** Which creates wait for the disk, and what they share with those of the same id. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlantStoreError } from "../../src/core/errors.ts";
import { CreateInFlight, CreatesInFlight } from "../../src/store/in-flight.ts";

const FERN = { id: 7n, name: "Fern" };

function begin(id: bigint, hash: number): CreateInFlight {
  return new CreateInFlight({ id, name: "" }, hash, () => {});
}

test("creates in flight are found by their ids until they are removed, whatever their hashes share", () => {
  const id = fc.bigInt({ min: 0n, max: 20n });
  const step = fc.record({ id, isRemoval: fc.boolean() });
  // One hash for all; hashes of one chain; hashes of several, negative ones too.
  for (const hashOf of [() => 5, (of: bigint) => Number(of) << 10, (of: bigint) => -Number(of)]) {
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const creates = new CreatesInFlight();
        const model = new Map<bigint, CreateInFlight>();
        for (const { id: which, isRemoval } of steps) {
          const present = model.get(which);
          if (isRemoval && present !== undefined) {
            creates.remove(present);
            model.delete(which);
          } else if (!isRemoval && present === undefined) {
            const create = begin(which, hashOf(which));
            creates.add(create);
            model.set(which, create);
          }
          for (let each = 0n; each <= 20n; each++) {
            assert.equal(creates.find(each, hashOf(each)), model.get(each));
          }
        }
      }),
    );
  }
});

test("very many creates in flight are all found, and removed in the order they came", () => {
  const creates = new CreatesInFlight();
  const all = Array.from({ length: 20_000 }, (_, at) =>
    begin(BigInt(at), Math.imul(at, 0x9e3779b1)),
  );
  for (const create of all) creates.add(create);
  for (const create of all) {
    assert.equal(creates.find(create.plant.id, create.hash), create);
    creates.remove(create);
    assert.equal(creates.find(create.plant.id, create.hash), undefined);
  }
});

test("a create that was removed, or never added, may be removed again and leads to no other", () => {
  const creates = new CreatesInFlight();
  const [one, two, three] = [1n, 2n, 3n].map((id) => begin(id, 0)) as [
    CreateInFlight,
    CreateInFlight,
    CreateInFlight,
  ];
  creates.add(one);
  creates.add(two);
  creates.remove(two);
  creates.remove(two);
  creates.remove(three);
  assert.equal(two.next, undefined, "what has ended keeps nothing alive");
  assert.equal(creates.find(1n, 0), one);
});

test("a create is over before anybody is told, and a repeat of it shares its outcome", async () => {
  const over: unknown[] = [];
  const create = new CreateInFlight(FERN, 0, (which, offset) => over.push(which, offset));
  const same = create.repeat({ ...FERN });
  const other = create.repeat({ ...FERN, tag: "" });
  create.durable(42);
  assert.deepEqual(over, [create, 42]);
  assert.equal(await create.stored, 42);
  assert.equal(await same, "replayed");
  await assert.rejects(other, { code: "conflict" });
});

test("a create that failed fails its repeats alike", async () => {
  const error = new PlantStoreError("write_failed", "full");
  const over: unknown[] = [];
  const create = new CreateInFlight(FERN, 0, (which, offset) => over.push(which, offset));
  const repeat = create.repeat(FERN);
  create.failed(error);
  assert.deepEqual(over, [create, undefined]);
  await assert.rejects(create.stored, error);
  await assert.rejects(repeat, error);
});

test("a create whose end fails is not told as stored", async () => {
  const create = new CreateInFlight(FERN, 0, () => {
    throw new RangeError("no room in the index");
  });
  create.durable(42);
  await assert.rejects(create.stored, RangeError);
});
