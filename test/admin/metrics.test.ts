import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { batches, requests } from "../../src/core/channels.ts";
import { FAILURES } from "../../src/http/answer.ts";
import { type Admin, samplesOf, startAdmin } from "../support/admin.ts";
import { rowsOf, wordsIn } from "../support/docs.ts";

const REQUEST = {
  method: "POST",
  path: "/plants",
  status: 200,
  error: undefined,
  durationMs: 2,
  bodyBytes: 50,
  requestId: "a-1",
  token: "gardener",
  operation: "createPlant",
  cut: false,
} as const;

/** How many creates are published below. */
const ALL = Object.keys(FAILURES).length + 5;

/** Every kind of event once, with a token whose name is odd. */
async function startBusy(t: TestContext): Promise<Admin> {
  const admin = await startAdmin(t);
  admin.status.now.tokens = [
    { name: "gardener", scopes: ["write"], expiresAt: 1_800_000_000_000 },
    { name: "for-ever", scopes: ["read", "write"], expiresAt: undefined },
  ];
  requests.publish(REQUEST);
  requests.publish({ ...REQUEST, durationMs: 100_000 });
  requests.publish({ ...REQUEST, durationMs: undefined });
  for (const { status, error } of Object.values(FAILURES)) {
    requests.publish({ ...REQUEST, status, error, bodyBytes: 0 });
  }
  requests.publish({ ...REQUEST, operation: "getPlant", bodyBytes: 0 });
  const refused = { operation: undefined, token: undefined, status: 401, error: 40101 };
  requests.publish({ ...REQUEST, ...refused, bodyBytes: 0 });
  const read = { ...REQUEST, operation: "getPlant", bodyBytes: 0, durationMs: 500 } as const;
  for (const method of ["GET", "PROPFIND", undefined]) requests.publish({ ...read, method });
  const list = { ...read, method: "GET", operation: "listPlants", durationMs: 60_000 } as const;
  requests.publish(list);
  requests.publish({ ...list, cut: true });
  requests.publish({ ...list, status: 0, durationMs: 25_000, cut: true });
  batches.publish({ log: "x", records: 3, bytes: 120, syncMs: 0.5 });
  return admin;
}

test("every answer is counted under its status and error number", async (t) => {
  const admin = await startBusy(t);
  const samples = samplesOf((await admin.get("/metrics")).text);
  const expected: readonly [name: string, value: number][] = [
    ['plant_store_http_requests_total{operation="create",status="200",error=""}', 3],
    ['plant_store_http_requests_total{operation="list",status="200",error=""}', 1],
    ['plant_store_http_requests_total{operation="list",status="0",error=""}', 2],
    ['plant_store_http_requests_total{operation="get",status="0",error=""}', 0],
    ['plant_store_http_requests_total{operation="none",status="401",error="40101"}', 1],
    ['plant_store_http_requests_total{operation="create",status="400",error="40006"}', 1],
    ['plant_store_http_requests_total{operation="create",status="503",error="50303"}', 1],
    ['plant_store_http_request_duration_seconds_bucket{le="0.001"}', 0],
    ['plant_store_http_request_duration_seconds_bucket{le="30"}', ALL + 1],
    ["plant_store_http_request_duration_seconds_count", ALL + 2],
    ['plant_store_sync_duration_seconds_bucket{le="0.00025"}', 0],
    ['plant_store_sync_duration_seconds_bucket{le="0.0005"}', 1],
    ["plant_store_sync_duration_seconds_sum", 0.0005],
    ['plant_store_batch_records_bucket{le="2"}', 0],
    ['plant_store_batch_records_bucket{le="4"}', 1],
    ["plant_store_plants", 7],
    ["plant_store_log_bytes", 400],
    ["plant_store_queue_bytes", 0],
    ["plant_store_disk_free_bytes", 1024],
    ["plant_store_disk_size_bytes", 4096],
    ["plant_store_tokens", 2],
    ['plant_store_token_soonest_expiry_timestamp_seconds{token="gardener"}', 1_800_000_000],
    [`plant_store_build_info{version="1.2.3",node="${process.version}"}`, 1],
  ];
  for (const [name, value] of expected) assert.equal(samples.get(name), value, name);
  for (const name of ["process_resident_memory_bytes", "process_cpu_seconds_total"]) {
    assert.ok(Number(samples.get(name)) > 0, name);
  }
});

test("the counters of successes and of server failures exist, as 0, before the first of them", async (t) => {
  const samples = samplesOf((await (await startAdmin(t)).get("/metrics")).text);
  for (const operation of ["create", "get", "list"]) {
    for (const [status, error] of [
      [200, ""],
      ...Object.entries(FAILURES).map(([, failure]) => [failure.status, failure.error]),
    ]) {
      const labels = `{operation="${operation}",status="${status}",error="${error}"}`;
      const expected = status === 200 || Number(status) >= 500 ? 0 : undefined;
      assert.equal(samples.get(`plant_store_http_requests_total${labels}`), expected, labels);
    }
  }
});

test("before the store is open the metric of plants is missing, not 0", async (t) => {
  const admin = await startAdmin(t);
  admin.status.now.store = undefined;
  const samples = samplesOf((await admin.get("/metrics")).text);
  assert.equal(samples.has("plant_store_plants"), false);
  assert.equal(samples.get('plant_store_state{state="ready"}'), 1);
});

test("every metric follows the text format and the naming rules of Prometheus", async (t) => {
  const admin = await startBusy(t);
  const { text } = await admin.get("/metrics");
  assert.ok(text.endsWith("\n"));
  const seen = new Set<string>();
  for (const block of text.split(/(?=^# HELP )/m)) {
    const [help = "", type = "", ...samples] = block.trimEnd().split("\n");
    const [, name = "", says = ""] = /^# HELP ([a-z][a-z0-9_]*) (\S.*)$/.exec(help) ?? [];
    const [, kind = ""] = /^# TYPE [a-z0-9_]+ (counter|gauge|histogram)$/.exec(type) ?? [];
    assert.equal(type, `# TYPE ${name} ${kind}`);
    assert.equal(seen.has(name), false, `${name} occurs once`);
    seen.add(name);
    assert.match(says, /\.$/);
    assert.equal(name.endsWith("_total"), kind === "counter", name);
    assert.doesNotMatch(name, /_(ms|milliseconds|kib|mib|minutes)(_|$)/, "base units");
    assert.ok(samples.length > 0, name);
    const suffix = kind === "histogram" ? "(_bucket|_sum|_count)" : "";
    const sample = new RegExp(
      `^${name}${suffix}(\\{[a-z]+="[^"\\n]*"(,[a-z]+="[^"\\n]*")*\\})? [0-9.e+-]+$`,
    );
    for (const line of samples) assert.match(line, sample);
  }
  assert.ok(seen.size >= 18, "without those of a database");
});

test("the buckets of a histogram grow up to its count, and the last one is +Inf", async (t) => {
  const admin = await startBusy(t);
  const { text } = await admin.get("/metrics");
  const samples = samplesOf(text);
  for (const [, name = ""] of text.matchAll(/^# TYPE (\S+) histogram$/gm)) {
    const totals = [...samples].filter(([sample]) => sample.startsWith(`${name}_count`));
    assert.equal(totals.length, 1, name);
    for (const [sample, total] of totals) {
      const [, labels = ""] = /\{(.*)\}$/.exec(sample) ?? [];
      const series = `${name}_bucket{${labels && `${labels},`}`;
      const counts = [...samples]
        .filter(([bucket]) => bucket.startsWith(`${series}le=`))
        .map(([, count]) => count);
      assert.deepEqual(
        counts,
        counts.toSorted((a, b) => a - b),
        sample,
      );
      assert.equal(samples.get(`${series}le="+Inf"}`), total, sample);
    }
  }
});

test("of the tokens that expire the first is shown, by its name", async (t) => {
  const admin = await startAdmin(t);
  admin.status.now.tokens = [3000, 2000, undefined, 4000].map((expiresAt) => {
    return { name: `until "${expiresAt}"`, scopes: ["write"], expiresAt };
  });
  const { text } = await admin.get("/metrics");
  assert.deepEqual(text.match(/^plant_store_token_soonest.*$/gm), [
    'plant_store_token_soonest_expiry_timestamp_seconds{token="until \\"2000\\""} 2',
  ]);
});

/** Metrics in the documentation, by their full name: type and labels. */
function documentedMetrics(): Map<string, { type: string; labels: string }> {
  const tables = [
    ["plant_store_", "metric"],
    ["", "process metric"],
  ] as const;
  const found = tables.flatMap(([prefix, column]) => {
    return rowsOf("docs/operating.md", column).flatMap((row) => {
      return wordsIn(row[column]).map((word) => {
        const [, name = "", labels = ""] = /^([a-z_]+)(?:\{([a-z,]+)\})?$/.exec(word) ?? [];
        return [`${prefix}${name}`, { type: row.type ?? "", labels }] as const;
      });
    });
  });
  assert.equal(new Set(found.map(([name]) => name)).size, found.length, "each once");
  return new Map(found);
}

test("the documentation names every metric with its type and labels, and no other", {
  skip: existsSync("/proc/self/fd") ? false : "there is no /proc",
}, async (t) => {
  const admin = await startBusy(t);
  admin.status.now.database = { host: "db:5432", isSynchronous: true, leaseAgeMs: 250 };
  const { text } = await admin.get("/metrics");
  const documented = documentedMetrics();
  const shown = new Map(
    Array.from(text.matchAll(/^# TYPE (\S+) (\S+)\n([^{ ]+)(?:\{(.*)\})? /gm), (metric) => {
      const [, name = "", type = "", , labels = ""] = metric;
      const names = Array.from(labels.matchAll(/([a-z]+)="/g), ([, label]) => label);
      return [name, { type, labels: names.filter((label) => label !== "le").join() }];
    }),
  );
  assert.deepEqual([...shown.keys()].sort(), [...documented.keys()].sort());
  for (const [name, { type, labels }] of documented) {
    assert.deepEqual({ name, ...shown.get(name) }, { name, type, labels });
  }
});

const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;

test("promtool accepts the metrics", {
  skip: hasPromtool ? false : "there is no promtool",
}, async (t) => {
  const admin = await startBusy(t);
  const { text } = await admin.get("/metrics");
  const judged = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" });
  assert.deepEqual([judged.status, judged.stdout + judged.stderr], [0, ""]);
  const broken = spawnSync("promtool", ["check", "metrics"], { input: "a_total{ 1\n" });
  assert.notEqual(broken.status, 0); // promtool does find faults
});
