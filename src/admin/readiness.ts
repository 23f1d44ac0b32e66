/** Whether requests should be sent here, and if not, why: one rule for probes, metrics and people. */
import type { Status } from "../core/services.ts";
import type { Recorder } from "./recorder.ts";

export const STATES = ["starting", "ready", "out-of-disk", "draining", "failed"] as const;

export type State = (typeof STATES)[number];

/**
 * After a refused write the store counts as out of disk this long, unless a
 * later one succeeds. Then it counts as ready again: a balancer that sent
 * nothing more would never learn that there is room.
 */
const REFUSAL_COUNTS_MS = 10_000;

export function judgeState(status: Status, recorder: Recorder): State {
  const state = status.state();
  if (state !== "ready") return state;
  const refusedMsAgo = recorder.refusedMsAgo ?? Number.POSITIVE_INFINITY;
  return refusedMsAgo < REFUSAL_COUNTS_MS ? "out-of-disk" : "ready";
}

/** For people. */
export const STATE_MESSAGES: Readonly<Record<State, string>> = {
  starting: "the log is being read",
  ready: "requests are carried out",
  "out-of-disk": "the disk refuses what is written: new plants are answered 503",
  draining: "what is in flight is answered, nothing more is taken",
  failed: "the store has stopped after a disk failure; the process ends",
};
