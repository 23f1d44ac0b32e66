/**
 * The metrics of the service and of its process, in the text format of Prometheus, version 0.0.4.
 * Names never change, as error numbers do not; those of the process are known to dashboards.
 */
import { readdirSync } from "node:fs";
import { Histogram, type Recorder } from "./recorder.ts";
import { readState, STATES, type Status } from "./status.ts";

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number | Histogram];
/** Values by `NAME TYPE HELP`: one without labels, several with labels, none if unknown. */
type Metrics = Readonly<Record<string, number | Histogram | readonly Sample[] | undefined>>;

export function encodeMetrics(status: Status, recorder: Recorder): string {
  const metrics = { ...readStatus(status), ...readRecorder(recorder), ...readProcess() };
  return Object.entries(metrics)
    .map(([metric, value = []]) => {
      const isOne = typeof value === "number" || value instanceof Histogram;
      return encodeMetric(metric, isOne ? [[{}, value]] : value);
    })
    .join("");
}

function readStatus(status: Status): Metrics {
  const { version, disk } = status;
  const { state } = readState(status);
  const store = status.store();
  const database = status.database();
  const tokens = status.tokens();
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
  const outcomes = [...recorder.outcomes.values()];
  return {
    "plant_store_http_requests_total counter Requests by operation, status (0: aborted) and error number, which is empty for a success.":
      outcomes.map(({ operation, status, error = "", count }) => [
        { operation, status, error },
        count,
      ]),
    "plant_store_http_request_duration_seconds histogram From the headers of a request to its response, without streams.":
      recorder.requestSeconds,
    "plant_store_sync_duration_seconds histogram The time of a write that syncs a batch.":
      recorder.syncSeconds,
    "plant_store_batch_records histogram Plants in a batch.": recorder.batchRecords,
    "plant_store_warnings_total counter Events `warning` logged.": recorder.warningCount,
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

/** @returns nothing without samples. */
function encodeMetric(metric: string, samples: readonly Sample[]): string {
  const [, name = "", type, help] = /^(\w+) (\w+) (.*)$/.exec(metric) ?? [];
  if (samples.length === 0) return "";
  const lines = samples.map(([labels, value]) => {
    if (value instanceof Histogram) return encodeHistogram(name, value);
    return encodeSample(name, labels, value);
  });
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function encodeHistogram(name: string, { buckets, count, sum }: Histogram): string {
  let total = 0;
  const lines = buckets.map((bucket) => {
    total += bucket.count;
    return encodeSample(`${name}_bucket`, { le: bucket.le }, total);
  });
  lines.push(encodeSample(`${name}_bucket`, { le: "+Inf" }, count));
  lines.push(encodeSample(`${name}_sum`, {}, sum), encodeSample(`${name}_count`, {}, count));
  return lines.join("");
}

function encodeSample(name: string, labels: Labels, value: number): string {
  // A label is escaped like a JSON string, except that control characters are allowed in it.
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}=${JSON.stringify(`${text}`)}`,
  );
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join()}}`} ${value}\n`;
}
