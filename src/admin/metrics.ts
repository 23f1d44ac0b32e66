/**
 * The metrics of the service and of its process, in the text format of Prometheus, version 0.0.4.
 * Names never change, as error numbers do not; those of the process are known to dashboards.
 */
import { readdirSync } from "node:fs";
import type { DiskStatus } from "../core/services.ts";
import { readFilesMax } from "../http/server.ts";
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
  const certificateExpiresAt = status.certificateExpiresAt?.();
  // An edited file may have two live tokens of one name; then the newest counts.
  const expiries = new Map(tokens.map(({ name, expiresAt }) => [name, expiresAt]));
  return {
    "plant_store_build_info gauge The version of the store and of Node; the value is always 1.": [
      [{ version, node: process.version }, 1],
    ],
    "plant_store_state gauge 1 for the state the service is in, 0 for the others.": STATES.map(
      (name) => [{ state: name }, Number(name === state)],
    ),
    "plant_store_plants gauge Plants stored.": store?.plants,
    "plant_store_log_bytes gauge Durable bytes of the log.": store?.logBytes,
    "plant_store_checkpoint_bytes gauge Bytes of the log that the newest checkpoint covers.":
      store?.logBytes && (store.checkpointBytes ?? 0),
    "plant_store_queue_bytes gauge Bytes of records that wait for the disk.": store?.queueBytes,
    "plant_store_disk_free_bytes gauge Free room on the disk.": disk?.freeBytes,
    "plant_store_database_connections gauge Open connections to the database.":
      database?.connections,
    "plant_store_database_retries_total counter Statements sent again, by the SQLSTATE of their failure; empty if it had none.":
      [...(database?.retries ?? [])].map(([state, count]) => [{ state }, count] as const),
    "plant_store_database_synchronous gauge 1 if commits of the database wait for a standby, else 0.":
      database && Number(database.isSynchronous ?? false),
    "plant_store_database_lease_age_seconds gauge Time since the last proof that the database is the primary; from 2 on verdicts on tokens wait.":
      database && database.leaseAgeMs / 1000,
    "plant_store_tls_certificate_expiry_timestamp_seconds gauge When the TLS certificate ends, in seconds since 1970.":
      certificateExpiresAt && certificateExpiresAt / 1000,
    "plant_store_tokens gauge Live tokens.": store && tokens.length,
    "plant_store_token_expiry_timestamp_seconds gauge When a live token expires, in seconds since 1970; none for a token without expiry.":
      [...expiries].flatMap(([token, expiresAt]) =>
        expiresAt === undefined ? [] : [[{ token }, expiresAt / 1000] as const],
      ),
  };
}

function readRecorder(recorder: Recorder): Metrics {
  return {
    "plant_store_http_requests_total counter Requests by operation, status (0: aborted) and error number, which is empty for a success.":
      [...recorder.answers.values()].map(({ operation, status, error = "", count }) => [
        { operation, status, error },
        count,
      ]),
    "plant_store_http_request_duration_seconds histogram From the headers of a request to its answer, by method, without streams.":
      [...recorder.requestSeconds].map(([method, seconds]) => [{ method }, seconds]),
    "plant_store_http_request_body_bytes_total counter Bytes of request bodies.":
      recorder.bodyBytes,
    "plant_store_sync_duration_seconds histogram The time of a write that syncs a batch.":
      recorder.syncSeconds,
    "plant_store_batch_records histogram Plants in a batch.": recorder.batchRecords,
    "plant_store_batch_bytes histogram Bytes in a batch.": recorder.batchBytes,
    "plant_store_connections_dropped_total counter Connections closed because too many were open.":
      recorder.droppedConnections,
    "plant_store_warnings_total counter Events `warning` logged.": recorder.warnings,
    "nodejs_eventloop_delay_seconds histogram How late a timer fired that is due every 10 ms.":
      recorder.delaySeconds,
  };
}

function readProcess(): Metrics {
  const { user, system } = process.cpuUsage();
  const memory = process.memoryUsage();
  return {
    "process_cpu_seconds_total counter User and system processor time of the process.":
      (user + system) / 1e6,
    "process_resident_memory_bytes gauge Memory of the process.": memory.rss,
    "process_start_time_seconds gauge When the process started, in seconds since 1970.":
      performance.timeOrigin / 1000, // does not change with the clock
    "process_open_fds gauge Open descriptors of the process.": countOpenFiles(),
    "process_max_fds gauge The most descriptors that the process may open.": readFilesMax(),
    "nodejs_heap_size_used_bytes gauge JavaScript heap in use.": memory.heapUsed,
    "nodejs_heap_size_total_bytes gauge JavaScript heap.": memory.heapTotal,
    "nodejs_external_memory_bytes gauge Memory of JavaScript objects outside the heap, the index for one.":
      memory.external,
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
