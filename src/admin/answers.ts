/** What each path of the admin listener answers, and what the answers are made from. */
import type { Status } from "../core/services.ts";
import { OPENAPI } from "../http/openapi.ts";
import { EventLoopDelay, EXPOSITION_TYPE, encodeMetrics } from "./metrics.ts";
import { Recorder } from "./recorder.ts";
import { describeState, judgeState, readStatusDocument } from "./status.ts";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "./status-page.ts";

export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export const JSON_TYPE = "application/json";

export const ROUTES: Readonly<Record<string, (sources: Sources) => Answer | Promise<Answer>>> = {
  "/": () => ({
    status: 200,
    type: "text/html; charset=utf-8",
    body: STATUS_PAGE,
    headers: { "Content-Security-Policy": STATUS_PAGE_POLICY },
  }),
  "/openapi.json": () => json(OPENAPI),
  "/healthz": () => json({ status: "ok" }),
  "/readyz": async (sources) => {
    const { status, recorder } = sources;
    // A probe is impatient: the disk is asked only if its answer counts.
    const free = recorder.refusedMsAgo === undefined ? undefined : await sources.freeBytes();
    const state = judgeState(status, recorder, free);
    return json({ state, message: describeState(state, status) }, state === "ready" ? 200 : 503);
  },
  "/metrics": async (sources) => {
    const { status, recorder, version, delay } = sources;
    const body = encodeMetrics(status, recorder, version, delay, await sources.freeBytes());
    return { status: 200, type: EXPOSITION_TYPE, body };
  },
  "/status.json": async (sources) => {
    const { status, recorder, version } = sources;
    return json(readStatusDocument(status, recorder, version, await sources.freeBytes()));
  },
};

function json(document: unknown, status = 200): Answer {
  return { status, type: JSON_TYPE, body: `${JSON.stringify(document)}\n` };
}

const FREE_BYTES_DEADLINE_MS = 1000;

/** What the answers are made from. Counts from the start until `close`. */
export class Sources {
  readonly status: Status;
  readonly version: string;
  readonly recorder = new Recorder();
  readonly delay = new EventLoopDelay();
  #freeBytes: Promise<number | undefined> | undefined;

  constructor(status: Status, version: string) {
    this.status = status;
    this.version = version;
  }

  close(): void {
    this.recorder.close();
    this.delay.close();
  }

  /**
   * The free room of the disk; `undefined` if it is not known, or not soon: a disk that hangs must
   * keep nobody from the other metrics. It is asked one question at a time, because each holds a
   * thread of the pool, which creates need too. Rejects like `Status.freeBytes`.
   */
  async freeBytes(): Promise<number | undefined> {
    this.#freeBytes ??= this.status.freeBytes().finally(() => {
      this.#freeBytes = undefined;
    });
    this.#freeBytes.catch(() => {}); // it may come when nobody waits any more
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), FREE_BYTES_DEADLINE_MS).unref();
    });
    return Promise.race([this.#freeBytes, late]).finally(() => clearTimeout(timer));
  }
}
