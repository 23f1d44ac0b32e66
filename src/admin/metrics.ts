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

/** @param freeBytes of the disk, if they are known. */
export function encodeServiceMetrics(
  status: Status,
  recorder: Recorder,
  version: string,
  freeBytes: number | undefined,
): string {
  const store = status.store();
  return [
    gauge(
      "plant_store_build_info",
      "The version of the store and of Node; the value is always 1.",
      [{ labels: { version, node: process.version }, value: 1 }],
    ),
    ...encodeRequests(recorder),
    ...encodeBatches(recorder),
    counter("plant_store_warnings_total", "Events `warning` logged.", recorder.warnings),
    encodeState(judgeState(status, recorder, freeBytes)),
    gauge("plant_store_plants", "Plants stored.", store?.plants),
    gauge("plant_store_log_bytes", "Durable bytes of the log.", store?.logBytes),
    gauge(
      "plant_store_checkpoint_bytes",
      "Bytes of the log that the newest checkpoint covers.",
      store && (store.checkpointBytes ?? 0),
    ),
    gauge("plant_store_queue_bytes", "Bytes of records that wait for the disk.", store?.queueBytes),
    gauge("plant_store_disk_free_bytes", "Free room on the disk.", freeBytes),
    gauge("plant_store_tokens", "Live tokens.", store && status.tokens().length),
    encodeExpiries(status),
  ].join("");
}

function encodeState(state: string): string {
  const samples = STATES.map((name) => ({
    labels: { state: name },
    value: Number(name === state),
  }));
  const help = "1 for the state the service is in, 0 for the others.";
  return gauge("plant_store_state", help, samples);
}

function encodeRequests(recorder: Recorder): string[] {
  const answers = recorder.answers.map(({ operation, status, error = "", count }) => {
    return { labels: { operation, status, error }, value: count };
  });
  const durations = [...recorder.requestSeconds].map(([method, value]) => {
    return { labels: { method }, value };
  });
  return [
    counter(
      "plant_store_http_requests_total",
      "Requests by operation, status (0: broke off) and error number; the number of a success is empty.",
      answers,
    ),
    histogram(
      "plant_store_http_request_duration_seconds",
      "From the headers of a request to its answer, by method; no streams.",
      durations,
    ),
    counter(
      "plant_store_http_request_body_bytes_total",
      "Bytes of request bodies.",
      recorder.bodyBytes,
    ),
    counter(
      "plant_store_connections_dropped_total",
      "Connections closed at once because the most were open.",
      recorder.droppedConnections,
    ),
  ];
}

function encodeBatches({ syncSeconds, batchRecords, batchBytes }: Recorder): string[] {
  const help = "How long a write that syncs a batch took.";
  return [
    histogram("plant_store_sync_duration_seconds", help, syncSeconds),
    histogram("plant_store_batch_records", "Plants in a batch.", batchRecords),
    histogram("plant_store_batch_bytes", "Bytes in a batch.", batchBytes),
  ];
}

function encodeExpiries(status: Status): string {
  // A log that was edited may have two live tokens of one name: only the newest has a series.
  const expiries = new Map(status.tokens().map(({ name, expiresAt }) => [name, expiresAt]));
  return gauge(
    "plant_store_token_expiry_timestamp_seconds",
    "When a live token expires, in seconds since 1970; none for one that does not.",
    [...expiries].flatMap(([token, expiresAt]) =>
      expiresAt === undefined ? [] : [{ labels: { token }, value: expiresAt / 1000 }],
    ),
  );
}

export function encodeProcessMetrics(delay: EventLoopDelay): string {
  const { user, system } = process.cpuUsage();
  const memory = process.memoryUsage();
  const descriptors = readDescriptors();
  return [
    counter(
      "process_cpu_seconds_total",
      "Processor time of the process, of its user and system part.",
      (user + system) / 1e6,
    ),
    gauge("process_resident_memory_bytes", "Memory of the process.", memory.rss),
    gauge(
      "process_start_time_seconds",
      "When the process started, in seconds since 1970.",
      performance.timeOrigin / 1000, // does not change with the clock
    ),
    gauge("process_open_fds", "Open descriptors of the process.", descriptors?.open),
    gauge("process_max_fds", "The most it may have open.", descriptors?.max),
    gauge("nodejs_heap_size_used_bytes", "JavaScript heap in use.", memory.heapUsed),
    gauge("nodejs_heap_size_total_bytes", "JavaScript heap.", memory.heapTotal),
    gauge(
      "nodejs_external_memory_bytes",
      "Memory that belongs to JavaScript objects outside of the heap, the index for one.",
      memory.external,
    ),
    histogram(
      "nodejs_eventloop_delay_seconds",
      "How late a timer fired that is due every 10 ms.",
      delay.seconds,
    ),
  ].join("");
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

type Labels = Readonly<Record<string, string | number>>;

interface Sample {
  readonly labels: Labels;
  readonly value: number | Histogram;
}

/** One sample without labels, none while it is not known, or samples by their labels. */
type Value = number | Histogram | undefined | readonly Sample[];

const counter = (name: string, help: string, value: Value) => encode("counter", name, help, value);
const gauge = (name: string, help: string, value: Value) => encode("gauge", name, help, value);
const histogram = (name: string, help: string, value: Value) =>
  encode("histogram", name, help, value);

/** A metric with its help and type, all samples together; nothing without a sample. */
function encode(type: string, name: string, help: string, value: Value): string {
  const isOne = typeof value === "number" || value instanceof Histogram;
  const samples = isOne ? [{ labels: {}, value }] : (value ?? []);
  if (samples.length === 0) return "";
  const lines = samples.map(({ labels, value }) =>
    value instanceof Histogram
      ? encodeHistogram(name, labels, value)
      : encodeSample(name, labels, value),
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
