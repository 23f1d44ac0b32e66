import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { batches, requests } from "../../src/core/channels.ts";
import { ERRORS, statusOf } from "../../src/core/errors.ts";
import { type Admin, startAdmin } from "../support/admin.ts";

const REQUEST = { status: 200, durationMs: 2, operation: "createPlant", cut: false } as const;

/** Every kind of event, over a database. */
async function startBusy(t: TestContext): Promise<Admin> {
  const admin = await startAdmin(t);
  const tokens = [["later", 3e12], ["soon", 2e12], ["for-ever"]] as const;
  admin.status.now.tokens = tokens.map(([name, expiresAt]) => ({ name, scopes: [], expiresAt }));
  admin.status.now.database = { host: "db:5432", isSynchronous: true, leaseAgeMs: 250 };
  for (const durationMs of [2, 100_000, undefined]) requests.publish({ ...REQUEST, durationMs });
  for (const error of Object.values(ERRORS)) {
    requests.publish({ ...REQUEST, status: statusOf(error), error });
  }
  requests.publish({ ...REQUEST, operation: undefined, status: 401, error: 40101 });
  requests.publish({ ...REQUEST, operation: "listPlants" });
  requests.publish({ ...REQUEST, operation: "listPlants", cut: true });
  requests.publish({ ...REQUEST, operation: "listPlants", status: 0, cut: true });
  batches.publish({ records: 3, syncMs: 0.5 });
  return admin;
}

test("requests, syncs, the store, the disk, tokens and the process are shown", async (t) => {
  const timed = Object.keys(ERRORS).length + 3; // no aborted one, no list, none without a duration
  const { text } = await (await startBusy(t)).get("/metrics");
  for (const [name, value] of [
    ['http_requests_total{operation="create",status="200",error=""}', 3],
    ['http_requests_total{operation="list",status="0",error=""}', 2],
    ['http_requests_total{operation="none",status="401",error="40101"}', 1],
    ['http_requests_total{operation="create",status="400",error="40006"}', 1],
    ['http_request_duration_seconds_bucket{le="0.001"}', 0],
    ['http_request_duration_seconds_bucket{le="0.0025"}', timed - 1],
    ['http_request_duration_seconds_bucket{le="+Inf"}', timed],
    ["http_request_duration_seconds_count", timed],
    ['sync_duration_seconds_bucket{le="0.0005"}', 1],
    ["sync_duration_seconds_sum", 0.0005],
    ["plants", 7],
    ["log_bytes", 400],
    ["disk_free_bytes", 1024],
    ["disk_size_bytes", 4096],
    ["database_synchronous", 1],
    ["database_lease_age_seconds", 0.25],
    ["tokens", 3],
    ['token_soonest_expiry_timestamp_seconds{token="soon"}', 2e9],
    [`build_info{version="1.2.3",node="${process.version}"}`, 1],
  ] as const) {
    assert.ok(
      text.includes(`\nplant_store_${name} ${value}\n`),
      `${name} is not ${value}: ${text}`,
    );
  }
  assert.match(text, /\nprocess_resident_memory_bytes \d{7,}\n/);
  assert.ok(text.includes(`\nprocess_start_time_seconds ${performance.timeOrigin / 1000}\n`));
});

test("the counters of successes, aborts and server errors are 0 before the first of them", async (t) => {
  const { text } = await (await startAdmin(t)).get("/metrics");
  const shown = text.match(/(?<=^plant_store_http_requests_total).*$/gm) ?? [];
  const errors = Object.values(ERRORS).filter((error) => statusOf(error) >= 500);
  const outcomes = [[0, ""], [200, ""], ...errors.map((error) => [statusOf(error), error])];
  const of = (operation: string) => outcomes.map((outcome) => [operation, ...outcome]);
  const all = ["create", "get", "list"].flatMap(of);
  const expected = [...all, ["none", 401, 40101], ["none", 401, 40102]].map(
    ([operation, status, error]) =>
      `{operation="${operation}",status="${status}",error="${error}"} 0`,
  );
  assert.deepEqual(shown.sort(), expected.sort());
});
