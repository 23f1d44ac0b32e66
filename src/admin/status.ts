/** What the answers are made from: the figures, the state, the document of the status page. */
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { NUMBER_OPTIONS } from "../core/options.ts";
import type { DiskStatus, Status } from "../core/services.ts";
import { FAILURES } from "../http/answer.ts";
import { type AnswerCount, Recorder } from "./recorder.ts";

/** A disk that hangs must not keep back the other figures. */
const DISK_DEADLINE_MS = 1000;

/** However many ask, what they ask for is made ten times a second at most. */
const SHARED_MS = 100;

/** Has all who ask within `SHARED_MS` share what is made. */
export function share<Made>(make: () => Promise<Made>): () => Promise<Made> {
  let madeAt = Number.NEGATIVE_INFINITY;
  let made: Promise<Made>;
  return () => {
    const now = performance.now();
    if (now - madeAt < SHARED_MS) return made;
    madeAt = now;
    made = make();
    return made;
  };
}

export class Sources {
  readonly status: Status;
  readonly version: string;
  readonly recorder = new Recorder();
  #disk: Promise<DiskStatus | undefined> | undefined;

  constructor(status: Status, version: string) {
    this.status = status;
    this.version = version;
  }

  /**
   * The disk; `undefined` if it is unknown, or not known in time. Questions share one answer, because
   * each holds a thread of the pool, which creates need too. Rejects like `Status.disk`.
   */
  readonly disk = share(() => this.#askDisk());

  async #askDisk(): Promise<DiskStatus | undefined> {
    this.#disk ??= this.status.disk().finally(() => {
      this.#disk = undefined;
    });
    this.#disk.catch(() => {}); // it may fail after the deadline
    const late = sleep(DISK_DEADLINE_MS, undefined, { ref: false });
    return Promise.race([this.#disk, late]);
  }
}

/** Every state, explained to people. */
const MESSAGES = {
  starting: "the log is being read",
  ready: "requests are carried out",
  "out-of-disk": "the disk refuses writes: creates are answered 503",
  "tokens-unreadable":
    "the token file cannot be read, so revoked tokens are unknown: requests with a token are " +
    "answered 503; the log has the reason",
  "database-away":
    "the database does not answer, or its synchronous standby does not: requests are answered 503; " +
    "the log has the reason",
  draining: "the server is stopping: requests under way are answered",
  failed: "the store has stopped after a failure of its disk or data directory; the process ends",
};

export type State = keyof typeof MESSAGES;
export const STATES = Object.keys(MESSAGES);

/**
 * After a refused write the store is out of disk for this long, and after that as long as the disk
 * has no room, unless a later write succeeds. Then it is ready again: a load balancer that sent
 * nothing more would never learn that writes succeed.
 */
const REFUSAL_COUNTS_MS = 10_000;

/** The longest batch with default options: a MiB, and a plant that may be as long as a body. */
const ROOM_BYTES = 1024 * 1024 + NUMBER_OPTIONS.bodyBytesMax.default;

/** @param disk if known; used only after a refused write. */
export function judgeState({ status }: Sources, disk?: DiskStatus): State {
  const state = status.state();
  const msSinceRefusal = status.store()?.msSinceRefusal;
  if (state !== "ready" || msSinceRefusal === undefined) return state;
  return hasNoRoom(disk) || msSinceRefusal < REFUSAL_COUNTS_MS ? "out-of-disk" : "ready";
}

/** The status page shows a disk with a smaller free share in red. Whether it fills within a day only Prometheus knows (docs/prometheus-rules.yml). */
const SHORT_SHARE = 0.05;

function hasNoRoom(disk: DiskStatus | undefined): boolean {
  return disk !== undefined && disk.freeBytes < ROOM_BYTES;
}

export function describeState(state: State, status: Status): string {
  const progress = state === "starting" ? status.progress?.() : undefined;
  if (progress === undefined) return MESSAGES[state];
  const percent = Math.floor((100 * progress.bytes) / Math.max(progress.total, 1));
  return `${MESSAGES[state]}, ${percent} % so far`;
}

/** Times are milliseconds since 1970. Unknown figures are absent. */
export function readStatusDocument(sources: Sources, disk: DiskStatus | undefined) {
  const { status, recorder, version } = sources;
  const now = Date.now();
  const state = judgeState(sources, disk);
  const store = status.store();
  const folder = status.folder?.();
  return {
    version,
    now,
    startedAt: Math.round(performance.timeOrigin),
    state,
    message: describeState(state, status),
    plants: store?.plants,
    logBytes: store?.logBytes,
    queueBytes: store?.queueBytes,
    freeBytes: disk?.freeBytes,
    totalBytes: disk?.totalBytes,
    /** Whether an operator has to make room soon. */
    isDiskShort: disk && (hasNoRoom(disk) || disk.freeBytes < SHORT_SHARE * disk.totalBytes),
    database: status.database?.(),
    folder: folder && path.resolve(folder),
    memoryBytes: process.memoryUsage.rss(),
    msSinceRefusal: store?.msSinceRefusal,
    history: recorder.history.read(now),
    errors: readErrors(recorder),
    warnings: recorder.lastWarnings,
    url: status.url?.(),
    usesSince: recorder.usesSince,
    tokens:
      store &&
      status.tokens().map(({ name, scopes, expiresAt }) => {
        return { name, scopes, expiresAt, lastUsedAt: recorder.lastUseOf(name) };
      }),
  };
}

const CODES = new Map(Object.entries(FAILURES).map(([code, { error }]) => [error, code]));

/** By error number, for all operations together, in the order of the numbers; token and reason are those of the last. */
function readErrors(recorder: Recorder) {
  const errors = new Map<number, AnswerCount>();
  for (const answer of recorder.answers.values()) {
    const { error, count } = answer;
    if (error === undefined || count === 0) continue;
    const other = errors.get(error);
    const newest = other && other.lastAt > answer.lastAt ? other : answer;
    errors.set(error, { ...newest, count: count + (other?.count ?? 0) });
  }
  const sorted = [...errors].sort(([a], [b]) => a - b);
  return sorted.map(([error, { count, lastAt, token, reason }]) => {
    return { error, code: CODES.get(error) ?? "", count, lastAt, token, reason };
  });
}
