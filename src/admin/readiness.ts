/** Whether requests should be sent here, and if not, why: one rule for probes, metrics and people. */
import { NUMBER_OPTIONS } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import type { Recorder } from "./recorder.ts";

export const STATES = [
  "starting",
  "ready",
  "out-of-disk",
  "tokens-unreadable",
  "draining",
  "failed",
] as const;

export type State = (typeof STATES)[number];

/**
 * After a refused write the store counts as out of disk this long, and as long as the
 * disk has no room, unless a later one succeeds. Then it counts as ready again: a
 * balancer that sent nothing more would never learn that writes succeed.
 */
const REFUSAL_COUNTS_MS = 10_000;

/** What one batch takes at most, by default: it ends with a plant that may be long. */
const ROOM_BYTES = NUMBER_OPTIONS.batchBytesMax.default + NUMBER_OPTIONS.bodyBytesMax.default;

/** @param freeBytes of the disk, where they are known; they count after a refused write alone. */
export function judgeState(status: Status, recorder: Recorder, freeBytes?: number): State {
  const state = status.state();
  const { refusedMsAgo } = recorder;
  if (state !== "ready" || refusedMsAgo === undefined) return state;
  const isFull = freeBytes !== undefined && freeBytes < ROOM_BYTES;
  return isFull || refusedMsAgo < REFUSAL_COUNTS_MS ? "out-of-disk" : "ready";
}

/** For people. */
export function describeState(state: State, status: Status): string {
  const progress = state === "starting" ? status.progress?.() : undefined;
  if (progress === undefined) return STATE_MESSAGES[state];
  const percent = Math.floor((100 * progress.bytes) / Math.max(progress.total, 1));
  return `${STATE_MESSAGES[state]}, ${percent} % so far`;
}

const STATE_MESSAGES: Readonly<Record<State, string>> = {
  starting: "the log is being read",
  ready: "requests are carried out",
  "out-of-disk": "the disk refuses what is written: new plants are answered 503",
  "tokens-unreadable":
    "the token file cannot be read, so nobody knows which tokens are revoked: requests with a token " +
    "are answered 503; the log has the reason",
  draining: "what is in flight is answered, nothing more is taken",
  failed: "the store has stopped after a failure of its disk or data directory; the process ends",
};
