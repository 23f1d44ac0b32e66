/**
 * Whether requests should be sent here, and if not, why: one rule for probes, metrics and people.
 * And the document that the status page polls, which holds what is shown there and nothing else.
 */
import { NUMBER_OPTIONS } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import { FAILURES } from "../http/reply.ts";
import type { Recorder } from "./recorder.ts";

/** Every state, and what it means to people. */
const MESSAGES = {
  starting: "the log is being read",
  ready: "requests are carried out",
  "out-of-disk": "the disk refuses what is written: new plants are answered 503",
  "tokens-unreadable":
    "the token file cannot be read, so nobody knows which tokens are revoked: requests with a token " +
    "are answered 503; the log has the reason",
  draining: "what is in flight is answered, nothing more is taken",
  failed: "the store has stopped after a failure of its disk or data directory; the process ends",
};

export type State = keyof typeof MESSAGES;
export const STATES = Object.keys(MESSAGES);

/**
 * After a refused write the store counts as out of disk this long, and as long as the disk has no
 * room, unless a later one succeeds. Then it counts as ready again: a balancer that sent nothing
 * more would never learn that writes succeed.
 */
const REFUSAL_COUNTS_MS = 10_000;

/** What one batch takes at most, by default: it ends with a plant that may be long. */
const ROOM_BYTES = NUMBER_OPTIONS.batchBytesMax.default + NUMBER_OPTIONS.bodyBytesMax.default;

/** @param freeBytes of the disk, if they are known; they count only after a refused write. */
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
  if (progress === undefined) return MESSAGES[state];
  const percent = Math.floor((100 * progress.bytes) / Math.max(progress.total, 1));
  return `${MESSAGES[state]}, ${percent} % so far`;
}

/** Times are milliseconds since 1970; what is not known is `null`. */
export function readStatusDocument(
  status: Status,
  recorder: Recorder,
  version: string,
  freeBytes: number | undefined,
) {
  const now = Date.now();
  const state = judgeState(status, recorder, freeBytes);
  const store = status.store();
  return {
    version,
    now,
    startedAt: Math.round(performance.timeOrigin),
    state,
    message: describeState(state, status),
    plants: store?.plants ?? null,
    logBytes: store?.logBytes ?? null,
    queueBytes: store?.queueBytes ?? null,
    checkpointBytes: store?.checkpointBytes ?? null,
    freeBytes: freeBytes ?? null,
    refusedMsAgo: recorder.refusedMsAgo ?? null,
    history: recorder.history.read(now),
    errors: readErrors(recorder),
    tokens: status.tokens().map(({ name, scopes, expiresAt = null }) => {
      return { name, scopes, expiresAt };
    }),
  };
}

const CODES = new Map(Object.entries(FAILURES).map(([code, { error }]) => [error, code]));

/** By error number, all operations together, the newest first. */
function readErrors({ answers }: Recorder) {
  const errors = new Map<number, { error: number; code: string; count: number; lastAt: number }>();
  for (const { error, count, lastAt } of answers) {
    if (error === undefined || count === 0) continue;
    const other = errors.get(error);
    errors.set(error, {
      error,
      code: CODES.get(error) ?? "",
      count: count + (other?.count ?? 0),
      lastAt: Math.max(lastAt, other?.lastAt ?? 0),
    });
  }
  return [...errors.values()].sort((a, b) => b.lastAt - a.lastAt);
}
