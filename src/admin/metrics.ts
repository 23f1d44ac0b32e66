/**
 * The metrics of the service and of its process, in the text format of Prometheus, version 0.0.4.
 * Their names are for ever, as error numbers are; those of the process are the ones that dashboards
 * know.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Status } from "../core/services.ts";
import { Histogram, type Recorder } from "./recorder.ts";
import { judgeState, STATES } from "./status.ts";

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Every metric: its name, its type and its help. */
const METRICS = `
plant_store_build_info gauge The version of the store and of Node; the value is always 1.
plant_store_state gauge 1 for the state the service is in, 0 for the others.
plant_store_http_requests_total counter Requests by operation, status (0: broke off) and error number; the number of a success is empty.
plant_store_http_request_duration_seconds histogram From the headers of a request to its answer, by method; no streams.
plant_store_http_request_body_bytes_total counter Bytes of request bodies.
plant_store_sync_duration_seconds histogram How long a write that syncs a batch took.
plant_store_batch_records histogram Plants in a batch.
plant_store_batch_bytes histogram Bytes in a batch.
plant_store_connections_dropped_total counter Connections closed at once because the most were open.
plant_store_warnings_total counter Events \`warning\` logged.
plant_store_plants gauge Plants stored.
plant_store_log_bytes gauge Durable bytes of the log.
plant_store_checkpoint_bytes gauge Bytes of the log that the newest checkpoint covers.
plant_store_queue_bytes gauge Bytes of records that wait for the disk.
plant_store_disk_free_bytes gauge Free room on the disk.
plant_store_tokens gauge Live tokens.
plant_store_token_expiry_timestamp_seconds gauge When a live token expires, in seconds since 1970; none for one that does not.
process_cpu_seconds_total counter Processor time of the process, of its user and system part.
process_resident_memory_bytes gauge Memory of the process.
process_start_time_seconds gauge When the process started, in seconds since 1970.
process_open_fds gauge Open descriptors of the process.
process_max_fds gauge The most it may have open.
nodejs_heap_size_used_bytes gauge JavaScript heap in use.
nodejs_heap_size_total_bytes gauge JavaScript heap.
nodejs_external_memory_bytes gauge Memory that belongs to JavaScript objects outside of the heap, the index for one.
nodejs_eventloop_delay_seconds histogram How late a timer fired that is due every 10 ms.
`;

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number | Histogram];
/** One sample without labels, none while it is not known, or samples by their labels. */
type Value = number | Histogram | undefined | readonly Sample[];

/** @param freeBytes of the disk, if they are known. */
export function encodeMetrics(
  status: Status,
  recorder: Recorder,
  version: string,
  delay: EventLoopDelay,
  freeBytes: number | undefined,
): string {
  const values: Readonly<Record<string, Value>> = {
    ...readService(status, version, judgeState(status, recorder, freeBytes)),
    ...readRecorder(recorder),
    plant_store_disk_free_bytes: freeBytes,
    ...readProcess(),
    nodejs_eventloop_delay_seconds: delay.seconds,
  };
  return METRICS.trim()
    .split("\n")
    .map((line) => {
      const [, name = "", type = "", help = ""] = /^(\w+) (\w+) (.*)$/.exec(line) ?? [];
      return encodeMetric(name, type, help, values[name]);
    })
    .join("");
}

function readService(status: Status, version: string, state: string): Record<string, Value> {
  const store = status.store();
  // A log that was edited may have two live tokens of one name: only the newest has a series.
  const expiries = new Map(status.tokens().map(({ name, expiresAt }) => [name, expiresAt]));
  return {
    plant_store_build_info: [[{ version, node: process.version }, 1]],
    plant_store_state: STATES.map((name) => [{ state: name }, Number(name === state)]),
    plant_store_plants: store?.plants,
    plant_store_log_bytes: store?.logBytes,
    plant_store_checkpoint_bytes: store && (store.checkpointBytes ?? 0),
    plant_store_queue_bytes: store?.queueBytes,
    plant_store_tokens: store && status.tokens().length,
    plant_store_token_expiry_timestamp_seconds: [...expiries].flatMap(([token, expiresAt]) =>
      expiresAt === undefined ? [] : [[{ token }, expiresAt / 1000] as const],
    ),
  };
}

function readRecorder(recorder: Recorder): Record<string, Value> {
  return {
    plant_store_http_requests_total: recorder.answers.map((answer) => {
      const { operation, status, error = "", count } = answer;
      return [{ operation, status, error }, count];
    }),
    plant_store_http_request_duration_seconds: [...recorder.requestSeconds].map(
      ([method, seconds]) => [{ method }, seconds],
    ),
    plant_store_http_request_body_bytes_total: recorder.bodyBytes,
    plant_store_sync_duration_seconds: recorder.syncSeconds,
    plant_store_batch_records: recorder.batchRecords,
    plant_store_batch_bytes: recorder.batchBytes,
    plant_store_connections_dropped_total: recorder.droppedConnections,
    plant_store_warnings_total: recorder.warnings,
  };
}

function readProcess(): Record<string, Value> {
  const { user, system } = process.cpuUsage();
  const memory = process.memoryUsage();
  const descriptors = readDescriptors();
  return {
    process_cpu_seconds_total: (user + system) / 1e6,
    process_resident_memory_bytes: memory.rss,
    process_start_time_seconds: performance.timeOrigin / 1000, // does not change with the clock
    process_open_fds: descriptors?.open,
    process_max_fds: descriptors?.max,
    nodejs_heap_size_used_bytes: memory.heapUsed,
    nodejs_heap_size_total_bytes: memory.heapTotal,
    nodejs_external_memory_bytes: memory.external,
  };
}

/** Unknown if there is no /proc. */
function readDescriptors(): { open: number; max: number | undefined } | undefined {
  try {
    const open = readdirSync("/proc/self/fd").length - 1; // without the one that reads
    const limits = readFileSync("/proc/self/limits", "latin1");
    return { open, max: Number(/^Max open files +([0-9]+)/m.exec(limits)?.[1]) || undefined };
  } catch {
    return undefined;
  }
}

/** Meets every pause that a client feels, for about 1 % of a processor that has nothing else to do. */
const SAMPLE_MS = 10;

/**
 * How late timers fire: how long the event loop was kept from what waited. Not
 * `monitorEventLoopDelay`, which has quantiles: nobody can add them up over time or over servers.
 */
export class EventLoopDelay {
  readonly seconds = new Histogram([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]);
  readonly #timer: NodeJS.Timeout;
  #last = performance.now();

  constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.seconds.observe(Math.max(0, now - this.#last - SAMPLE_MS) / 1000);
      this.#last = now;
    }, SAMPLE_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** A metric with its help and type, all samples together; nothing without a sample. */
function encodeMetric(name: string, type: string, help: string, value: Value): string {
  const isOne = typeof value === "number" || value instanceof Histogram;
  const samples: readonly Sample[] = isOne ? [[{}, value]] : (value ?? []);
  if (samples.length === 0) return "";
  const lines = samples.map(([labels, each]) =>
    each instanceof Histogram
      ? encodeHistogram(name, labels, each)
      : encodeSample(name, labels, each),
  );
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function encodeHistogram(name: string, labels: Labels, histogram: Histogram): string {
  const counts = histogram.cumulative();
  const buckets = [...histogram.bounds, Number.POSITIVE_INFINITY].map((le, at) =>
    encodeSample(`${name}_bucket`, { ...labels, le: encodeNumber(le) }, counts[at] ?? 0),
  );
  const sum = encodeSample(`${name}_sum`, labels, histogram.sum);
  return `${buckets.join("")}${sum}${encodeSample(`${name}_count`, labels, counts.at(-1) ?? 0)}`;
}

function encodeSample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}="${escapeLabel(String(text))}"`,
  );
  const suffix = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  return `${name}${suffix} ${encodeNumber(value)}\n`;
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function encodeNumber(value: number): string {
  return value === Number.POSITIVE_INFINITY ? "+Inf" : String(value);
}
