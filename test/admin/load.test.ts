/** What many clients of the admin listener may cost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestMessage } from "../../src/index.ts";
import { startAdmin } from "../support/admin.ts";
import { collectMessages } from "../support/watch.ts";

for (const path of ["/metrics", "/status.json"]) {
  test(`${path} is made once for all who ask within a tenth of a second`, async (t) => {
    let now = Math.ceil(performance.now()); // else a difference of 100 may be a little less
    t.mock.method(performance, "now", () => now);
    const admin = await startAdmin(t);
    const listed = t.mock.method(admin.status, "tokens");
    const asked = t.mock.method(admin.status, "free");
    for (const [laterMs, made] of [
      [0, 1],
      [99, 1],
      [1, 2],
      [99, 2],
    ] as const) {
      now += laterMs;
      const answers = await Promise.all([admin.get(path), admin.get(path)]);
      for (const { status } of answers) assert.equal(status, 200);
      assert.deepEqual([listed.mock.callCount(), asked.mock.callCount()], [made, made]);
    }
  });
}

test("/readyz asks the disk once for all who ask within a tenth of a second", async (t) => {
  const now = performance.now();
  t.mock.method(performance, "now", () => now);
  const admin = await startAdmin(t);
  admin.status.known = { plants: 7, queueBytes: 0, msSinceRefusal: 0 };
  const asked = t.mock.method(admin.status, "free");
  for (let time = 0; time < 3; time++) assert.equal((await admin.get("/readyz")).status, 503);
  assert.equal(asked.mock.callCount(), 1);
});

test("its requests and refusals are no requests of the service", async (t) => {
  const requests = collectMessages<RequestMessage>(t, "plant-store:request");
  const admin = await startAdmin(t);
  for (const path of ["/healthz", "/nowhere"]) await admin.get(path);
  await admin.get("/", { method: "POST" });
  assert.deepEqual(requests, []);
});
