/** The JSON document that the status page polls: what is shown there, and nothing else. */
import type { Status, TokenStatus } from "../core/services.ts";
import { FAILURES } from "../http/reply.ts";
import type { HistoryDocument } from "./history.ts";
import { describeState, judgeState, type State } from "./readiness.ts";
import type { Recorder } from "./recorder.ts";

/** Times are milliseconds since 1970; what is not known is `null`. */
export interface StatusDocument {
  readonly version: string;
  readonly now: number;
  readonly startedAt: number;
  readonly state: State;
  readonly message: string;
  readonly plants: number | null;
  readonly logBytes: number | null;
  readonly queueBytes: number | null;
  readonly checkpointBytes: number | null;
  readonly freeBytes: number | null;
  readonly refusedMsAgo: number | null;
  readonly history: HistoryDocument;
  /** The newest first. */
  readonly errors: readonly ErrorDocument[];
  readonly tokens: readonly TokenDocument[];
}

export interface ErrorDocument {
  readonly error: number;
  readonly code: string;
  readonly count: number;
  readonly lastAt: number;
}

export interface TokenDocument extends Pick<TokenStatus, "name" | "scopes"> {
  readonly expiresAt: number | null;
}

const CODES = new Map(Object.entries(FAILURES).map(([code, { error }]) => [error, code]));

export function readStatusDocument(
  status: Status,
  recorder: Recorder,
  version: string,
  freeBytes: number | undefined,
): StatusDocument {
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
    tokens: status.tokens().map(({ name, scopes, expiresAt = null }) => ({
      name,
      scopes,
      expiresAt,
    })),
  };
}

/** Of all operations together. */
function readErrors({ answers }: Recorder): ErrorDocument[] {
  const errors = new Map<number, ErrorDocument>();
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
