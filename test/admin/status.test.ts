import assert from "node:assert/strict";
import { test } from "node:test";
import { requests } from "../../src/core/channels.ts";
import { startAdmin } from "../support/admin.ts";

/** In milliseconds since 1970. */
const START = 1_800_000_000_000;

test("errors are listed by number, over all operations, the latest first", async (t) => {
  const admin = await startAdmin(t);
  const now = t.mock.method(Date, "now");
  const fail = (at: number, error: number, operation?: string) => {
    now.mock.mockImplementation(() => START + at);
    requests.publish({ status: Math.floor(error / 100), error, operation, bodyBytes: 0 });
  };
  const errors = async () => JSON.parse((await admin.get("/status.json")).text).errors;
  fail(1000, 40006, "createPlant");
  fail(3000, 40402, "getPlant");
  fail(2000, 40101);
  assert.deepEqual(await errors(), [
    { error: 40402, code: "unknown_plant", count: 1, lastAt: START + 3000 },
    { error: 40101, code: "missing_token", count: 1, lastAt: START + 2000 },
    { error: 40006, code: "conflict", count: 1, lastAt: START + 1000 },
  ]);
  fail(4000, 40101, "createPlant");
  const [newest, second] = await errors();
  assert.deepEqual(newest, { error: 40101, code: "missing_token", count: 2, lastAt: START + 4000 });
  assert.equal(second.error, 40402);
});
