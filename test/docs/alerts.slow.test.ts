/** The alerts for Prometheus: each with the case that it is for, and with the nearest case that it is not for. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { namesIn } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";

const RULES = "docs/deploy/prometheus-rules.yml";
const LABELS = 'job="plant-store",instance="a"';
const HAS_PROMTOOL = spawnSync("promtool", ["--version"]).status === 0;
const skip = HAS_PROMTOOL ? false : "needs promtool, not found here";

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
const free = (thousandths: string) => ({
  plant_store_disk_free_bytes: thousandths,
  plant_store_disk_size_bytes: "1000x600",
});
const token = (expiries: string) => ({
  'plant_store_token_soonest_expiry_timestamp_seconds{token="greenhouse-7"}': expiries,
});
const starts = (up: string, values: string) => ({ up, process_start_time_seconds: values });
const states = (ready: string, away: string) => ({
  'plant_store_state{state="ready"}': ready,
  'plant_store_state{state="database-away"}': away,
});
const warnings = (values: string) => ({ plant_store_warnings_total: values });
const DAY_S = 86_400;

/** Whether an alert fires in the case that it says, at so many minutes after the first value. */
type Row = readonly [alert: string, fires: boolean, says: string, at: number, series: Series];

const ROWS: readonly Row[] = [
  ["Down", true, "the server does not respond", 8, { up: "1x5 0x5" }],
  ["Down", true, "the only server left the discovery", 8, { up: "1x5 stale" }],
  ["Down", true, "it starts three times", 16, starts("1x20", "1x5 300x3 500x3 700x10")],
  ["Down", false, "it restarts twice", 16, starts("1x5 0 1x5 0 1x8", "1x5 360x6 720x9")],
  ["NotReady", true, "the database is away for 3 minutes", 9, states("1x5 0x5", "0x5 1x5")],
  ["NotReady", false, "a failover takes a minute", 8, states("1x5 0x1 1x5", "0x5 1x1 0x5")],
  ["RefusesRequests", true, "a request fails each minute", 13, failures("0x5 1+1x10")],
  ["RefusesRequests", false, "two fail, five minutes apart", 12, failures("0x5 1x4 2x10")],
  ["RefusesRequests", false, "one conflicts each minute", 15, requests('status="400"', "0+1x20")],
  ["DiskFills", true, "it loses a thousandth of its size each minute", 200, free("800-1x300")],
  ["DiskFills", true, "4 % are free", 150, free("40x200")],
  ["DiskFills", false, "one backup takes half of the free space", 195, free("800x100 400x300")],
  ["DiskFills", false, "a new server sees one step", 95, free("800 700x300")],
  ["DiskFills", false, "6 % are free", 150, free("60x200")],
  ["Slow", true, "2 % take longer than 0.5 s", 20, latency("0+98x30", "0+100x30")],
  ["Slow", false, "0.5 % take longer than 0.5 s", 20, latency("0+199x30", "0+200x30")],
  ["Slow", false, "no request comes", 20, latency("5x30", "9x30")],
  ["TokenExpires", true, "a token expires in six days", 5, token(`${6 * DAY_S}x10`)],
  ["TokenExpires", true, "it has expired, and its series ends", 60, token("1200x19 stale")],
  ["TokenExpires", false, "it was revoked six days before", 30, token(`${6 * DAY_S}x10 stale`)],
  ["TokenExpires", false, "a token expires in eight days", 5, token(`${8 * DAY_S}x10`)],
  ["Warns", true, "a running server logs a warning", 15, warnings("1x10 2x10")],
  ["Warns", false, "a start logs one, after three before it", 12, warnings("3x10 1x10")],
  ["Warns", false, "a first start logs one", 12, warnings("_x10 1x10")],
];

/** A file of promtool, which reads JSON as the YAML that it is. */
function encode([alert, fires, , at, series]: Row): string {
  const input_series = Object.entries(series).map(([name, values]) => ({
    series: name.includes("{") ? name.replace("{", `{${LABELS},`) : `${name}{${LABELS}}`,
    values,
  }));
  const expr = `count(ALERTS{alertname="PlantStore${alert}",alertstate="firing"})`;
  const exp_samples = fires ? [{ labels: "{}", value: 1 }] : [];
  const promql_expr_test = [{ expr, eval_time: `${at}m`, exp_samples }];
  const tests = [{ interval: "1m", input_series, promql_expr_test }];
  return JSON.stringify({ rule_files: [path.join(ROOT, RULES)], evaluation_interval: "1m", tests });
}

for (const row of ROWS) {
  const [alert, fires, says] = row;
  test(`PlantStore${alert} ${fires ? "fires" : "is silent"} if ${says}`, { skip }, (t) => {
    const file = path.join(makeFolder(t), "test.yml");
    writeFileSync(file, encode(row));
    const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", file]);
    assert.equal(status, 0, `${stdout}${stderr}`);
  });
}

test("each alert has a case in which it fires, and one in which it does not", () => {
  const alerts = namesIn("docs/operating.md", "alert").sort();
  for (const fires of [true, false]) {
    const tried = ROWS.filter((row) => row[1] === fires).map(([alert]) => `PlantStore${alert}`);
    assert.deepEqual([...new Set(tried)].sort(), alerts);
  }
});
