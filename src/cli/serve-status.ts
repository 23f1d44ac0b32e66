/** What the admin listener shows of a server: its phase, its store, its tokens, its disk. */
import path from "node:path";
import type { ServiceState, Status } from "../admin/status.ts";
import type { DatabaseStatus, StoreStatus, TokenStatus } from "../core/services.ts";
import { type Backend, readDisk } from "./backend.ts";
import { VERSION } from "./command.ts";
import { describeProgress, report } from "./output.ts";

/** A start that reads the log for longer than this logs its progress. */
const LONG_START_MS = 2000;

/** How often the disk is polled for the admin listener. */
const DISK_POLL_MS = 10_000;

export class ServeStatus implements Status {
  readonly version = VERSION;
  readonly folder: string | undefined;
  url: string | undefined;
  progress: Status["progress"];
  disk: Status["disk"];
  phase: ServiceState = "starting";
  backend: Backend | undefined;
  /** When the start logs its progress; infinite once it has. */
  #reportAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isPolling = false;

  /** @param folder the data directory, which need not exist yet; `undefined` for a database. */
  constructor(folder: string | undefined) {
    this.folder = folder && path.resolve(folder);
  }

  /** Receives how many bytes of the log were read. A long start logs this once. */
  reading(bytes: number, total: number): void {
    this.progress = { bytes, total };
    const now = performance.now();
    this.#reportAt ??= now + LONG_START_MS;
    if (now < this.#reportAt) return;
    this.#reportAt = Number.POSITIVE_INFINITY;
    const message = `reading the log: ${describeProgress(bytes, total)} so far`;
    report({ level: "info", event: "starting", message, fields: { bytes, total } });
  }

  /** Keeps `disk` up to date until `stop`. Keeps no process alive. */
  followDisk(): void {
    this.#timer = setInterval(() => this.pollDisk(), DISK_POLL_MS).unref();
    void this.pollDisk();
  }

  /** Each poll holds a thread of the pool, so there is one at a time. A disk that hangs is unknown. */
  async pollDisk(): Promise<void> {
    if (this.#isPolling) this.disk = undefined;
    if (this.#isPolling || this.folder === undefined) return;
    this.#isPolling = true;
    this.disk = await readDisk(this.folder);
    this.#isPolling = false;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  state(): ServiceState {
    return this.phase === "ready" ? (this.backend?.state() ?? "ready") : this.phase;
  }

  store(): StoreStatus | undefined {
    return this.backend?.plants.status();
  }

  database(): DatabaseStatus | undefined {
    return this.backend?.database?.();
  }

  tokens(): readonly TokenStatus[] {
    return this.backend?.tokens.list() ?? [];
  }
}
