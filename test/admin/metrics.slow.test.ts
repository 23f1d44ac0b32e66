/** A metric whose measurement waits for the disk. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { samplesOf, startAdmin } from "../support/admin.ts";
import { until } from "../support/watch.ts";

test("while the disk does not answer, its metric is missing, and the others are shown at once", async (t) => {
  const admin = await startAdmin(t);
  const answers: ((bytes: number) => void)[] = [];
  admin.status.free = () => new Promise((resolve) => answers.push(resolve));
  const scrapes = await Promise.all([admin.get("/metrics"), admin.get("/metrics")]);
  for (const { text } of scrapes) {
    const samples = samplesOf(text);
    assert.equal(samples.has("plant_store_disk_free_bytes"), false);
    assert.equal(samples.get("plant_store_plants"), 7);
  }
  assert.equal(answers.length, 1);
  answers[0]?.(256);
  admin.status.free = async () => 512;
  await until("it is asked again", async () => {
    return JSON.parse((await admin.get("/status.json")).text).freeBytes === 512;
  });
});
