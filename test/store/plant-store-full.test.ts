import assert from "node:assert/strict";
import { test } from "node:test";
import { assertRoom, IdIndex } from "../../src/store/id-index.ts";
import { errorNumber, startService } from "../support/service.ts";

const FULL = { code: "not_stored" };
const LOG_BYTES = 2 ** 40 - 1 - 2 ** 32;
const PLANTS = 2 ** 31;

const PLACES: readonly [logBytes: number, plants: number, hasRoom: boolean][] = [
  [0, 0, true],
  [LOG_BYTES - 1, PLANTS - 1, true],
  [LOG_BYTES, 0, false],
  [0, PLANTS, false],
  [LOG_BYTES + 1, PLANTS + 1, false],
];

for (const [logBytes, plants, hasRoom] of PLACES) {
  test(`a log of ${logBytes} bytes with ${plants} plants has ${hasRoom ? "" : "no "}room for another`, () => {
    if (hasRoom) assertRoom(logBytes, plants);
    else assert.throws(() => assertRoom(logBytes, plants), FULL);
  });
}

test("a full store refuses a new plant with not_stored, and continues (fake size)", async (t) => {
  const { store, post } = await startService(t);
  const add = t.mock.method(IdIndex.prototype, "add");
  assert.equal((await post('{"id":1,"name":"a"}')).status, 200);
  const index = add.mock.calls[0]?.this as IdIndex;
  index.size = PLANTS;
  const refused = await post('{"id":2,"name":"b"}');
  assert.deepEqual([refused.status, errorNumber(refused)], [503, 50305]);
  assert.equal(refused.headers.has("retry-after"), false);
  assert.equal((await post('{"id":1,"name":"a"}')).status, 200, "a replay needs no room");
  index.size = 1;
  assert.equal(await store.create({ id: 2n, name: "b" }), "created");
});
