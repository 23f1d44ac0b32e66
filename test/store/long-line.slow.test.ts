/** Plants whose records would be longer than a line of a log may be. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { RECORD_BYTES_MAX } from "../../src/core/options.ts";
import { encodeNewPlant, validateNewPlant } from "../../src/core/plant.ts";
import { makeFolder } from "../support/folders.ts";
import { openStore, readLog } from "../support/stores.ts";

/** Each takes six bytes of the record. */
const NAME = "\u0001".repeat(11 * 1024 * 1024);

test("a plant that is longer than a line may be is refused, and the next one stored", async (t) => {
  const folder = makeFolder(t);
  const store = await openStore(t, folder);
  await assert.rejects(store.create({ id: 1n, name: NAME }), { code: "body_too_large" });
  assert.equal(await store.create({ id: 1n, name: "a" }), "created");
  assert.equal(readLog(folder), '{"id":1,"name":"a"}\n');
});

test("the length of a long plant is found without its line in memory", async (t) => {
  const store = await openStore(t, makeFolder(t));
  const { stringify } = JSON;
  let charactersMax = 0;
  t.mock.method(JSON, "stringify", (text: string) => {
    charactersMax = Math.max(charactersMax, text.length);
    return stringify(text);
  });
  await assert.rejects(store.create({ id: 1n, name: NAME }), { code: "body_too_large" });
  assert.ok(charactersMax > 0 && charactersMax <= 65_536, `${charactersMax} characters`);
});

for (const unit of ["a", "\u00e9", "\u{1f33f}", "\ud83c", "\u2028", '"']) {
  for (const member of ["name", "tag"] as const) {
    test(`a plant with a ${member} of ${JSON.stringify(unit)} may have a line of 64 MiB, and no byte more`, () => {
      const empty = { id: -1n, name: "", ...(member === "tag" && { tag: "" }) };
      const left = RECORD_BYTES_MAX - encodeNewPlant(empty).length - 1;
      const unitBytes =
        Buffer.byteLength(encodeNewPlant({ id: 1n, name: unit })) - '{"id":1,"name":""}'.length;
      const count = Math.floor(left / unitBytes);
      const text = `${"b".repeat(left - count * unitBytes)}${unit.repeat(count)}`;
      validateNewPlant({ ...empty, [member]: text });
      assert.throws(() => validateNewPlant({ ...empty, [member]: `a${text}` }), {
        code: "body_too_large",
      });
    });
  }
}
