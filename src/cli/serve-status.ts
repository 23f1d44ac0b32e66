/** What a server of the command line is at, for its admin listener. */
import { statfs } from "node:fs/promises";
import type {
  PlantStore,
  ServiceState,
  StartProgress,
  Status,
  StoreStatus,
  TokenRegistry,
  TokenStatus,
} from "../index.ts";
import { report } from "./output.ts";
import { describeShare } from "./progress.ts";

/** A start that reads the log for longer than this logs how far it is. */
const LONG_START_MS = 2000;

export class ServeStatus implements Status {
  readonly #data: string;
  /** When the first bytes of the log were read. */
  #readingSince: number | undefined;
  #state: ServiceState = "starting";
  #progress: StartProgress | undefined;
  #hasReported = false;
  #store: PlantStore | undefined;
  #tokens: TokenRegistry | undefined;

  /** @param data the data directory, which need not be there yet. */
  constructor(data: string) {
    this.#data = data;
  }

  /** So much of the log is read. A long start logs that, once. */
  reading(bytes: number, total: number): void {
    this.#progress = { bytes, total };
    this.#readingSince ??= performance.now();
    if (this.#hasReported || performance.now() - this.#readingSince < LONG_START_MS) return;
    this.#hasReported = true;
    const message = `reading the log: ${describeShare(bytes, total)} so far`;
    report({ level: "info", event: "starting", message, fields: { bytes, total } });
  }

  /** Everything is open, and the service listens. */
  ready(store: PlantStore, tokens: TokenRegistry): void {
    this.#store = store;
    this.#tokens = tokens;
    this.#state = "ready";
  }

  end(state: "draining" | "failed"): void {
    this.#state = state;
  }

  state(): ServiceState {
    const isRefusing = this.#state === "ready" && this.#tokens?.isReadable === false;
    return isRefusing ? "tokens-unreadable" : this.#state;
  }

  progress(): StartProgress | undefined {
    return this.#progress;
  }

  store(): StoreStatus | undefined {
    return this.#store?.status();
  }

  tokens(): readonly TokenStatus[] {
    return this.#tokens?.list() ?? [];
  }

  async freeBytes(): Promise<number | undefined> {
    try {
      const { bavail, bsize } = await statfs(this.#data);
      return bavail * bsize;
    } catch {
      return undefined;
    }
  }
}
