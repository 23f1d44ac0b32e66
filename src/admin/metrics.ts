/**
 * The metrics of the service and of its process, in the text format of Prometheus, version 0.0.4.
 * Names never change. Those of the process are the ones that dashboards expect.
 */
import { readdirSync } from "node:fs";
import type { Histogram, Recorder } from "./recorder.ts";
import { readState, STATES, type Status } from "./status.ts";

type Labels = Readonly<Record<string, string | number | undefined>>;
type Sample = readonly [labels: Labels, value: number, suffix?: string];

export function encodeMetrics(status: Status, recorder: Recorder): string {
  const { version, disk } = status;
  const { state } = readState(status);
  const builds: readonly Sample[] = [[{ version, node: process.version }, 1]];
  const states = STATES.map((each): Sample => [{ state: each }, Number(each === state)]);
  const { requestSeconds, syncSeconds, batchRecords, warningCount } = recorder;
  const store = status.store();
  const database = status.database();
  const tokens = status.tokens();
  const [soonest] = tokens
    .flatMap(({ name, expiresAt }) => (expiresAt === undefined ? [] : [{ name, expiresAt }]))
    .sort((a, b) => a.expiresAt - b.expiresAt);
  const outcomes = Array.from(recorder.outcomes.values(), (outcome): Sample => {
    const { operation, status, error = "", count } = outcome;
    return [{ operation, status, error }, count];
  });
  const { user, system } = process.cpuUsage();
  /** Values by `NAME TYPE HELP`; `undefined` if unknown. */
  const metrics: Readonly<Record<string, number | readonly Sample[] | undefined>> = {
    "plant_store_build_info gauge Always 1; its labels are versions.": builds,
    "plant_store_state gauge 1 for the current state, 0 for the others.": states,
    "plant_store_plants gauge Plants stored, estimated over a database.": store.plants,
    "plant_store_log_bytes gauge Durable bytes of the log.": store.logBytes,
    "plant_store_queue_bytes gauge Bytes of records that wait for the disk.": store.queueBytes,
    "plant_store_disk_free_bytes gauge Free space on the disk, read every 10 s.": disk?.freeBytes,
    "plant_store_disk_size_bytes gauge Size of the disk.": disk?.totalBytes,
    "plant_store_database_synchronous gauge 1 if commits of the database wait for a standby.":
      database && Number(database.isSynchronous ?? false),
    "plant_store_database_lease_age_seconds gauge Since the last proof that the database is the primary.":
      database && database.leaseAgeMs / 1000,
    "plant_store_tokens gauge Live tokens.": tokens.length,
    "plant_store_token_soonest_expiry_timestamp_seconds gauge The next expiry, since 1970.":
      soonest && [[{ token: soonest.name }, soonest.expiresAt / 1000]],
    "plant_store_http_requests_total counter Responses; status 0: the request broke off.": outcomes,
    "plant_store_http_request_duration_seconds histogram From the headers to the response, without streams.":
      samplesOf(requestSeconds),
    "plant_store_sync_duration_seconds histogram Writing and syncing a batch.":
      samplesOf(syncSeconds),
    "plant_store_batch_records histogram Plants in one sync or statement.": samplesOf(batchRecords),
    "plant_store_warnings_total counter Events `warning` of the log.": warningCount,
    "process_cpu_seconds_total counter Processor time.": (user + system) / 1e6,
    "process_resident_memory_bytes gauge Memory in use.": process.memoryUsage.rss(),
    "process_start_time_seconds gauge Start, since 1970.": performance.timeOrigin / 1000,
    "process_open_fds gauge Open files and connections.": countOpenFiles(),
  };
  return Object.entries(metrics)
    .map(([metric, value]) => encodeMetric(metric, value ?? []))
    .join("");
}

/** `undefined` without /proc. */
function countOpenFiles(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length - 1; // without the one that reads this
  } catch {
    return undefined;
  }
}

function encodeMetric(metric: string, value: number | readonly Sample[]): string {
  const [, name = "", type, help] = /^(\w+) (\w+) (.*)$/.exec(metric) ?? [];
  const samples: readonly Sample[] = typeof value === "number" ? [[{}, value]] : value;
  const lines = samples.map(([labels, number, suffix = ""]) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`);
    return `${name}${suffix}${pairs.length === 0 ? "" : `{${pairs}}`} ${number}\n`;
  });
  if (lines.length === 0) return "";
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function samplesOf({ bounds, counts, count, sum }: Histogram): Sample[] {
  const buckets = [...bounds, "+Inf"].map((le, at): Sample => {
    const total = counts.subarray(0, at + 1).reduce((all, each) => all + each, 0);
    return [{ le }, total, "_bucket"];
  });
  return [...buckets, [{}, sum, "_sum"], [{}, count, "_count"]];
}
