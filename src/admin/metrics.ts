/**
 * The metrics of the service and of its process, in the text format of Prometheus, version 0.0.4.
 * Names never change, as error numbers do not; those of the process are known to dashboards.
 */
import { readdirSync } from "node:fs";
import type { DiskStatus } from "../core/services.ts";
import { Histogram, type Recorder } from "./recorder.ts";
import { judgeState, type Sources, STATES } from "./status.ts";

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number | Histogram];
/** Values by `NAME TYPE HELP`: one without labels, several with labels, none if unknown. */
type Metrics = Readonly<Record<string, number | Histogram | readonly Sample[] | undefined>>;

/** @param disk if known. */
export function encodeMetrics(sources: Sources, disk: DiskStatus | undefined): string {
  const metrics: Metrics = {
    ...readService(sources, disk),
    ...readRecorder(sources.recorder),
    ...readProcess(),
  };
  const blocks = Object.entries(metrics).map(([metric, value]) => {
    const isOne = typeof value === "number" || value instanceof Histogram;
    return encodeMetric(metric, isOne ? [[{}, value]] : (value ?? []));
  });
  return blocks.join("");
}

function readService(sources: Sources, disk: DiskStatus | undefined): Metrics {
  const { status, version } = sources;
  const store = status.store();
  const state = judgeState(sources, disk);
  const tokens = status.tokens();
  const database = status.database?.();
  const [soonest] = tokens
    .flatMap(({ name, expiresAt }) => (expiresAt === undefined ? [] : [{ name, expiresAt }]))
    .sort((a, b) => a.expiresAt - b.expiresAt);
  return {
    "plant_store_build_info gauge The version of the store and of Node; the value is always 1.": [
      [{ version, node: process.version }, 1],
    ],
    "plant_store_state gauge 1 for the state the service is in, 0 for the others.": STATES.map(
      (name) => [{ state: name }, Number(name === state)],
    ),
    "plant_store_plants gauge Plants stored.": store?.plants,
    "plant_store_log_bytes gauge Durable bytes of the log.": store?.logBytes,
    "plant_store_queue_bytes gauge Bytes of records that wait for the disk.": store?.queueBytes,
    "plant_store_disk_free_bytes gauge Free room on the disk.": disk?.freeBytes,
    "plant_store_disk_size_bytes gauge The size of the disk.": disk?.totalBytes,
    "plant_store_database_synchronous gauge 1 if commits of the database wait for a standby, else 0.":
      database && Number(database.isSynchronous ?? false),
    "plant_store_database_lease_age_seconds gauge Time since the last proof that the database is the primary; from 2 on verdicts on tokens wait.":
      database && database.leaseAgeMs / 1000,
    "plant_store_tokens gauge Live tokens.": store && tokens.length,
    "plant_store_token_soonest_expiry_timestamp_seconds gauge When the live token that expires first does so, in seconds since 1970.":
      soonest && [[{ token: soonest.name }, soonest.expiresAt / 1000]],
  };
}

function readRecorder(recorder: Recorder): Metrics {
  return {
    "plant_store_http_requests_total counter Requests by operation, status (0: aborted) and error number, which is empty for a success.":
      [...recorder.answers.values()].map(({ operation, status, error = "", count }) => [
        { operation, status, error },
        count,
      ]),
    "plant_store_http_request_duration_seconds histogram From the headers of a request to its response, without streams.":
      recorder.requestSeconds,
    "plant_store_sync_duration_seconds histogram The time of a write that syncs a batch.":
      recorder.syncSeconds,
    "plant_store_batch_records histogram Plants in a batch.": recorder.batchRecords,
    "plant_store_warnings_total counter Events `warning` logged.": recorder.warnings,
  };
}

function readProcess(): Metrics {
  const { user, system } = process.cpuUsage();
  return {
    "process_cpu_seconds_total counter User and system processor time of the process.":
      (user + system) / 1e6,
    "process_resident_memory_bytes gauge Memory of the process.": process.memoryUsage.rss(),
    "process_start_time_seconds gauge When the process started, in seconds since 1970.":
      performance.timeOrigin / 1000, // does not change with the clock
    "process_open_fds gauge Open descriptors of the process.": countOpenFiles(),
  };
}

/** `undefined` without /proc. */
function countOpenFiles(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length - 1; // without the one that reads this
  } catch {
    return undefined;
  }
}

/** @returns the help and type of a metric, and its samples; nothing without samples. */
function encodeMetric(metric: string, samples: readonly Sample[]): string {
  const [, name = "", type, help] = /^(\w+) (\w+) (.*)$/.exec(metric) ?? [];
  if (samples.length === 0) return "";
  const lines = samples.map(([labels, value]) =>
    value instanceof Histogram
      ? encodeHistogram(name, labels, value)
      : encodeSample(name, labels, value),
  );
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function encodeHistogram(name: string, labels: Labels, { buckets, count, sum }: Histogram): string {
  const encodeBucket = (le: number | string, total: number) =>
    encodeSample(`${name}_bucket`, { ...labels, le }, total);
  let total = 0;
  const lines = buckets.map((bucket) => {
    total += bucket.count;
    return encodeBucket(bucket.le, total);
  });
  lines.push(encodeBucket("+Inf", count));
  lines.push(encodeSample(`${name}_sum`, labels, sum));
  lines.push(encodeSample(`${name}_count`, labels, count));
  return lines.join("");
}

function encodeSample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  const suffix = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  return `${name}${suffix} ${value}\n`;
}

function escapeLabel(text: string | number): string {
  return String(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
