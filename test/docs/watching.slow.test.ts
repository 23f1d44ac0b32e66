/**
 * The alert rules and the dashboard beside the documentation: every metric in them exists, Prometheus
 * accepts every query, and each alert fires for its fault alone.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { STATES } from "../../src/admin/status.ts";
import { FAILURES } from "../../src/http/answer.ts";
import { canRun } from "../faults/machine.ts";
import { startAdmin } from "../support/admin.ts";
import { rowsOf, wordsIn } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";

const RULES = path.join(ROOT, "docs/prometheus-rules.yml");
const rules = readFileSync(RULES, "utf8");
const dashboard = JSON.parse(readFileSync(path.join(ROOT, "docs/grafana-dashboard.json"), "utf8"));

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
}
const panels: readonly Panel[] = dashboard.panels;
const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

/** The labels of every metric that a server exports, by the name that a query uses. */
async function exportedMetrics(t: TestContext): Promise<Map<string, Set<string>>> {
  const admin = await startAdmin(t);
  admin.status.certificateEnd = Date.UTC(2030, 0, 31);
  admin.status.listed = [{ name: "gardener", scopes: ["write"], expiresAt: Date.now() }];
  const { text } = await admin.get("/metrics");
  const metrics = new Map([["up", new Set(["job", "instance"])]]);
  for (const [, name = "", labels = ""] of text.matchAll(/^([a-z]\w+)(?:\{(.*)\})? /gm)) {
    const names = Array.from(labels.matchAll(/([a-z]+)="/g), ([, label = ""]) => label);
    metrics.set(name, new Set([...names, "job", "instance"]));
  }
  return metrics;
}

for (const [place, text, metricsMin] of [
  ["alert rules", Array.from(rules.matchAll(/expr: (.*(?:\n {10}.*)*)/g), String).join("\n"), 10],
  ["dashboard", queries.join("\n"), 20],
] as const) {
  test(`every metric, label and state that the ${place} name exists`, async (t) => {
    const metrics = await exportedMetrics(t);
    const used = Array.from(
      text.matchAll(/\b((?:plant_store|process|nodejs)_\w+|up)\b(?:\{([^}]*)\})?/g),
      ([, name = "", matchers = ""]) => ({
        name,
        labels: Array.from(matchers.matchAll(/([a-z]+)=/g), ([, label = ""]) => label),
      }),
    );
    assert.ok(new Set(used.map(({ name }) => name)).size >= metricsMin, "they are found");
    const missing = used.filter(({ name, labels }) => {
      const known = metrics.get(name);
      return known === undefined || labels.some((label) => !known.has(label));
    });
    assert.deepEqual(missing, []);
    for (const [, state = ""] of text.matchAll(/state="([^"]*)"/g)) {
      assert.ok(STATES.includes(state), state);
    }
  });
}

test("the dashboard has a title and a description for each panel, and no two panels overlap", () => {
  const places = dashboard.panels.map((panel: Record<string, Record<string, number>>) => {
    assert.ok(panel.title && panel.description, `panel ${panel.id}`);
    return panel.gridPos;
  });
  const cells = places.flatMap(({ x, y, w, h }: Record<"x" | "y" | "w" | "h", number>) => {
    assert.ok(x + w <= 24);
    return Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`);
  });
  assert.equal(new Set(cells).size, cells.length);
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
});

test("Prometheus accepts every query of the dashboard", async (t) => {
  if (!canRun(t, "promtool", "--version")) return;
  const recorded = queries.map((query, at) => ({
    record: `panel:${at}`,
    expr: query
      .replaceAll("$__rate_interval", "5m")
      .replaceAll("$instance", ".*")
      .replaceAll("$job", "plant-store"),
  }));
  const file = path.join(makeFolder(t), "queries.yml");
  writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboard", rules: recorded }] }));
  const { status, stdout, stderr } = await runToEnd(["promtool", "check", "rules", file]);
  assert.equal(status, 0, stdout + stderr);
  assert.match(stdout, new RegExp(`${queries.length} rules found`));
});

test("the table of alerts has every alert with its severity, in order", () => {
  const found = rules.matchAll(/alert: (\w+)[\s\S]*?severity: (\w+)/g);
  const alerts = Array.from(found, ([, alert, severity]) => ({ alert, severity }));
  const documented = rowsOf("docs/operating.md", "alert").map(({ alert, severity }) => ({
    alert: wordsIn(alert)[0],
    severity,
  }));
  assert.deepEqual(documented, alerts);
});

/** One value a minute, as promtool writes them. */
type Series = Readonly<Record<string, string>>;

const LABELS = 'job="plant-store",instance="a"';
const seriesOf = (name: string, labels = "") => `${name}{${LABELS}${labels && `,${labels}`}}`;
const stateOf = (name: string) => seriesOf("plant_store_state", `state="${name}"`);
const answersOf = (operation: string, status: number, error: number | "") =>
  seriesOf(
    "plant_store_http_requests_total",
    `operation="${operation}",status="${status}",error="${error}"`,
  );
const bucketsOf = (name: string, extra: string, values: Readonly<Record<string, string>>): Series =>
  Object.fromEntries(
    Object.entries(values).map(([le, counts]) => [
      seriesOf(`${name}_bucket`, `${extra}le="${le}"`),
      counts,
    ]),
  );
const REQUESTS = "plant_store_http_request_duration_seconds";
const SYNCS = "plant_store_sync_duration_seconds";

/** One hour of a server that creates 600 plants a minute, with a mistake of a client now and then. */
const HEALTHY: Series = {
  [seriesOf("up")]: "1x60",
  ...Object.fromEntries(STATES.map((state) => [stateOf(state), `${Number(state === "ready")}x60`])),
  [seriesOf("process_start_time_seconds")]: "100x60",
  [seriesOf("plant_store_log_bytes")]: "0+24000x60",
  [seriesOf("plant_store_checkpoint_bytes")]: "0+23000x60",
  [seriesOf("plant_store_disk_free_bytes")]: "8000000000-24000x60",
  [seriesOf("plant_store_warnings_total")]: "1x60",
  [seriesOf("plant_store_connections_dropped_total")]: "3x60",
  [seriesOf("plant_store_token_expiry_timestamp_seconds", 'token="gardener"')]: "9000000x60",
  [answersOf("create", 200, "")]: "0+600x60",
  [answersOf("create", 503, FAILURES.write_failed.error)]: "0x60",
  [answersOf("create", 400, FAILURES.conflict.error)]: "0+6x60",
  [answersOf("none", 401, FAILURES.invalid_token.error)]: "0+6x60",
  ...bucketsOf(REQUESTS, 'method="POST",', { "0.25": "0+600x60", "+Inf": "0+600x60" }),
  ...bucketsOf(SYNCS, "", { "0.01": "0+600x60", "+Inf": "0+600x60" }),
};

/** What differs, from which all alerts follow that fire within the hour. */
const FAULTS: readonly (readonly [fault: string, alerts: readonly string[], series: Series])[] = [
  ["nothing happens", [], {}],
  ["a restart", [], { [seriesOf("process_start_time_seconds")]: "100x20 1300x40" }],
  [
    "the process is gone",
    ["PlantStoreDown"],
    Object.fromEntries(
      Object.keys(HEALTHY).map((name) => [name, name === seriesOf("up") ? "1x20 0x40" : "_x60"]),
    ),
  ],
  [
    "it drains for ever",
    ["PlantStoreNotReady"],
    { [stateOf("ready")]: "1x20 0x40", [stateOf("draining")]: "0x20 1x40" },
  ],
  [
    "the disk is full",
    ["PlantStoreNotReady", "PlantStoreOutOfDisk", "PlantStoreRefusesRequests"],
    {
      [stateOf("ready")]: "1x20 0x40",
      [stateOf("out-of-disk")]: "0x20 1x40",
      [answersOf("create", 503, FAILURES.write_failed.error)]: "0x20 0+60x40",
    },
  ],
  [
    "the store fails",
    ["PlantStoreFailed"],
    { [stateOf("ready")]: "1x60", [stateOf("failed")]: "0x50 1x10" },
  ],
  [
    "it starts again and again",
    ["PlantStoreFailed"],
    { [seriesOf("process_start_time_seconds")]: "100x50 3100+60x10" },
  ],
  [
    "the disk fills",
    ["PlantStoreDiskFillsWithinADay"],
    { [seriesOf("plant_store_disk_free_bytes")]: "8000000000-12000000x60" },
  ],
  [
    "the checkpoint is not written while plants are created",
    ["PlantStoreCheckpointOld"],
    {
      [seriesOf("plant_store_log_bytes")]: "0+24000000x60",
      [seriesOf("plant_store_checkpoint_bytes")]: "1x60",
    },
  ],
  [
    "the checkpoint is not written in a quiet time",
    ["PlantStoreCheckpointOld"],
    {
      [seriesOf("plant_store_log_bytes")]: "24000x60",
      [seriesOf("plant_store_checkpoint_bytes")]: "23000x60",
    },
  ],
  [
    "2 % of the requests are slow",
    ["PlantStoreSlow"],
    bucketsOf(REQUESTS, 'method="POST",', { "0.25": "0+588x60", "1": "0+600x60" }),
  ],
  [
    "2 % of the syncs are slow",
    ["PlantStoreDiskIsSlow"],
    bucketsOf(SYNCS, "", { "0.01": "0+588x60", "0.5": "0+600x60" }),
  ],
  [
    "somebody guesses tokens",
    ["PlantStoreTokensRefused"],
    { [answersOf("none", 401, FAILURES.invalid_token.error)]: "0x20 0+6000x40" },
  ],
  [
    "a token expires",
    ["PlantStoreTokenExpiresWithinAWeek"],
    { [seriesOf("plant_store_token_expiry_timestamp_seconds", 'token="gardener"')]: "600000x60" },
  ],
  [
    "a certificate ends",
    ["PlantStoreCertificateEndsWithinAWeek"],
    { [seriesOf("plant_store_tls_certificate_expiry_timestamp_seconds")]: "600000x60" },
  ],
  [
    "connections are dropped",
    ["PlantStoreConnectionsDropped"],
    { [seriesOf("plant_store_connections_dropped_total")]: "3x50 4x10" },
  ],
  ["it warns", ["PlantStoreWarns"], { [seriesOf("plant_store_warnings_total")]: "1x50 2x10" }],
];

test("each alert fires for its fault, and no other does", async (t) => {
  if (!canRun(t, "promtool", "--version")) return;
  const tests = FAULTS.map(([name, alerts, series]) => ({
    name,
    interval: "1m",
    input_series: Object.entries({ ...HEALTHY, ...series }).map(([metric, values]) => {
      return { series: metric, values };
    }),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))',
        eval_time: "1h",
        exp_samples: alerts.map((alertname) => {
          return { labels: `{alertname="${alertname}"}`, value: 1 };
        }),
      },
    ],
  }));
  const file = path.join(makeFolder(t), "faults.yml");
  writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: "1m", tests }));
  const { status, stdout, stderr } = await runToEnd(["promtool", "test", "rules", file]);
  assert.equal(status, 0, stdout + stderr);
  const fired = new Set(FAULTS.flatMap(([, alerts]) => alerts));
  const known = Array.from(rules.matchAll(/alert: (\w+)/g), ([, alert = ""]) => alert);
  assert.deepEqual([...fired].sort(), known.sort());
});
