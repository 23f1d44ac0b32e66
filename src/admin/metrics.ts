/** The table of what `/metrics` tells of the service. Names are for ever, as error numbers are. */
import type { Status } from "../core/services.ts";
import { type Metric, single } from "./exposition.ts";
import { judgeState, STATES } from "./readiness.ts";
import type { Recorder } from "./recorder.ts";

export interface BuildInfo {
  readonly version: string;
}

/** @param freeBytes of the disk, where it could be asked. */
export function readServiceMetrics(
  status: Status,
  recorder: Recorder,
  { version }: BuildInfo,
  freeBytes: number | undefined,
): Metric[] {
  const state = judgeState(status, recorder, freeBytes);
  const store = status.store();
  // A series each, also where a log was edited so that two live tokens share a name: the newest.
  const expiries = new Map(status.tokens().map(({ name, expiresAt }) => [name, expiresAt]));
  return [
    {
      name: "plant_store_build_info",
      help: "The version of the store and of Node; the value is always 1.",
      type: "gauge",
      samples: [{ labels: { version, node: process.version }, value: 1 }],
    },
    {
      name: "plant_store_state",
      help: "1 for the state the service is in, 0 for the others.",
      type: "gauge",
      samples: STATES.map((name) => ({ labels: { state: name }, value: name === state ? 1 : 0 })),
    },
    {
      name: "plant_store_http_requests_total",
      help: "Requests by operation, status (0: broke off) and error number; the number of a success is empty.",
      type: "counter",
      samples: recorder.answers.map(({ operation, status, error = "", count }) => ({
        labels: { operation, status, error },
        value: count,
      })),
    },
    {
      name: "plant_store_http_request_duration_seconds",
      help: "From the headers of a request to its answer, by method; no streams.",
      type: "histogram",
      samples: [...recorder.requestSeconds].map(([method, value]) => ({
        labels: { method },
        value,
      })),
    },
    single(
      "counter",
      "plant_store_http_request_body_bytes_total",
      "Bytes of request bodies.",
      recorder.bodyBytes,
    ),
    single(
      "histogram",
      "plant_store_sync_duration_seconds",
      "How long a write that syncs a batch took.",
      recorder.syncSeconds,
    ),
    single("histogram", "plant_store_batch_records", "Plants in a batch.", recorder.batchRecords),
    single("histogram", "plant_store_batch_bytes", "Bytes in a batch.", recorder.batchBytes),
    single(
      "counter",
      "plant_store_connections_dropped_total",
      "Connections closed at once because the most were open.",
      recorder.droppedConnections,
    ),
    single("counter", "plant_store_warnings_total", "Events `warning` logged.", recorder.warnings),
    single("gauge", "plant_store_plants", "Plants stored.", store?.plants),
    single("gauge", "plant_store_log_bytes", "Durable bytes of the log.", store?.logBytes),
    single(
      "gauge",
      "plant_store_checkpoint_bytes",
      "Bytes of the log that the newest checkpoint covers.",
      store && (store.checkpointBytes ?? 0),
    ),
    single(
      "gauge",
      "plant_store_queue_bytes",
      "Bytes of records that wait for the disk.",
      store?.queueBytes,
    ),
    single("gauge", "plant_store_disk_free_bytes", "Free room on the disk.", freeBytes),
    single("gauge", "plant_store_tokens", "Live tokens.", store && status.tokens().length),
    {
      name: "plant_store_token_expiry_timestamp_seconds",
      help: "When a live token expires, in seconds since 1970; none for one that does not.",
      type: "gauge",
      samples: [...expiries].flatMap(([token, expiresAt]) =>
        expiresAt === undefined ? [] : [{ labels: { token }, value: expiresAt / 1000 }],
      ),
    },
  ];
}
