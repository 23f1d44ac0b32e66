/** The alerts for Prometheus: each with the case that it is for, and with the nearest case that it is not for. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { rowsOf, wordsIn } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";

const RULES = path.join(ROOT, "docs/deploy/prometheus-rules.yml");
const SKIP =
  spawnSync("promtool", ["--version"]).status === 0 ? false : "needs promtool, not found here";

const LABELS = 'job="plant-store",instance="a"';
const DAY_S = 86_400;

/** Series by their names; a value each minute, in the notation of promtool. */
type Series = Readonly<Record<string, string>>;

const requests = (labels: string, values: string) => ({
  [`plant_store_http_requests_total{${labels},operation="create"}`]: values,
});
const failures = (values: string) => requests('status="503",error="50302"', values);
const latency = (fast: string, all: string) => ({
  'plant_store_http_request_duration_seconds_bucket{le="0.5"}': fast,
  'plant_store_http_request_duration_seconds_bucket{le="1"}': all,
  'plant_store_http_request_duration_seconds_bucket{le="+Inf"}': all,
});
const disk = (free: string) => ({
  plant_store_disk_free_bytes: free,
  plant_store_disk_size_bytes: "1000x600",
});
const token = (values: string) => ({
  'plant_store_token_soonest_expiry_timestamp_seconds{token="greenhouse-7"}': values,
});
const states = (ready: string, name: string, other: string) => ({
  'plant_store_state{state="ready"}': ready,
  [`plant_store_state{state="${name}"}`]: other,
});
const starts = (up: string, times: string) => ({ up, process_start_time_seconds: times });
const warnings = (values: string) => ({ plant_store_warnings_total: values });

/** In the case that it says, at so many minutes after the first value. */
type Row = readonly [alert: string, fires: boolean, says: string, at: number, series: Series];

/** The cases of an alert: those in which it fires, and the nearest in which it does not. */
function cases(
  alert: string,
  fires: readonly [says: string, at: number, series: Series][],
  silent: readonly [says: string, at: number, series: Series][],
): Row[] {
  return [
    ...fires.map((row) => [alert, true, ...row] as const),
    ...silent.map((row) => [alert, false, ...row] as const),
  ];
}

const SIX_DAYS = `${6 * DAY_S}x10`;

const ROWS: readonly Row[] = [
  ...cases(
    "PlantStoreDown",
    [
      ["the server does not respond", 8, { up: "1x5 0x5" }],
      ["the only server left the discovery", 8, { up: "1x5 stale" }],
      ["a third start in 15 minutes", 16, starts("1x20", "1x5 300x3 500x3 700x10")],
    ],
    [["two restarts of half a minute", 16, starts("1x5 0 1x5 0 1x8", "1x5 360x6 720x9")]],
  ),
  ...cases(
    "PlantStoreNotReady",
    [["the disk is full for 3 minutes", 9, states("1x5 0x5", "out-of-disk", "0x5 1x5")]],
    [["a failover takes a minute", 8, states("1x5 0x1 1x5", "database-away", "0x5 1x1 0x5")]],
  ),
  ...cases(
    "PlantStoreRefusesRequests",
    [["a request fails each minute", 13, failures("0x5 1+1x10")]],
    [
      ["two requests fail, five minutes apart", 12, failures("0x5 1x4 2x10")],
      ["a request conflicts each minute", 15, requests('status="400",error="40006"', "0+1x20")],
    ],
  ),
  ...cases(
    "PlantStoreDiskFills",
    [
      ["the disk loses a thousandth of its size each minute", 200, disk("800-1x300")],
      ["4 % of the disk are free", 150, disk("40x200")],
    ],
    [
      ["one backup takes half of the free space", 195, disk("800x100 400x300")],
      ["a server that has just started sees one step", 95, disk("800 700x300")],
      ["6 % of the disk are free", 150, disk("60x200")],
    ],
  ),
  ...cases(
    "PlantStoreSlow",
    [["2 % of the requests take longer than 0.5 s", 20, latency("0+98x30", "0+100x30")]],
    [
      ["0.5 % of the requests take longer than 0.5 s", 20, latency("0+199x30", "0+200x30")],
      ["no request comes", 20, latency("5x30", "9x30")],
    ],
  ),
  ...cases(
    "PlantStoreTokenExpires",
    [
      ["a token expires in six days", 5, token(SIX_DAYS)],
      ["a token has expired, and its series has ended", 60, token("1200x19 stale")],
    ],
    [
      ["such a token was revoked, and its series has ended", 30, token(`${SIX_DAYS} stale`)],
      ["a token expires in eight days", 5, token(`${8 * DAY_S}x10`)],
    ],
  ),
  ...cases(
    "PlantStoreWarns",
    [["a running server logs a warning", 15, warnings("1x10 2x10")]],
    [
      ["a start logs one, after three of the process before", 12, warnings("3x10 1x10")],
      ["a first start logs one", 12, warnings("_x10 1x10")],
    ],
  ),
];

function withLabels(name: string): string {
  return name.includes("{") ? name.replace("{", `{${LABELS},`) : `${name}{${LABELS}}`;
}

/** A file of promtool, which reads JSON as the YAML that it is. */
function encode([alert, fires, , at, series]: Row): string {
  const expr = `count(ALERTS{alertname="${alert}",alertstate="firing"})`;
  return JSON.stringify({
    rule_files: [RULES],
    evaluation_interval: "1m",
    tests: [
      {
        interval: "1m",
        input_series: Object.entries(series).map(([name, values]) => ({
          series: withLabels(name),
          values,
        })),
        promql_expr_test: [
          { expr, eval_time: `${at}m`, exp_samples: fires ? [{ labels: "{}", value: 1 }] : [] },
        ],
      },
    ],
  });
}

for (const row of ROWS) {
  const [alert, fires, says] = row;
  test(`${alert} ${fires ? "fires" : "is silent"} if ${says}`, { skip: SKIP }, (t) => {
    const file = path.join(makeFolder(t), "test.yml");
    writeFileSync(file, encode(row));
    const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", file], {
      encoding: "utf8",
    });
    assert.equal(status, 0, stdout + stderr);
  });
}

test("the documentation names the seven alerts, and each has a case in which it fires and one in which it does not", () => {
  const alerts = Array.from(readFileSync(RULES, "utf8").matchAll(/- alert: (\w+)/g), ([, n]) => n);
  assert.equal(alerts.length, 7);
  const documented = rowsOf("docs/operating.md", "alert").map(({ alert }) => wordsIn(alert)[0]);
  assert.deepEqual(documented.sort(), alerts.toSorted());
  for (const fires of [true, false]) {
    const tried = new Set(ROWS.filter((row) => row[1] === fires).map(([alert]) => alert));
    assert.deepEqual([...tried].sort(), alerts.toSorted());
  }
});
