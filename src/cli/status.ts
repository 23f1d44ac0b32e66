/** What the admin listener shows of a server: its state, its store, its tokens, its disk. */
import { statfs } from "node:fs/promises";
import path from "node:path";
import type { ServiceState, Status } from "../admin/status.ts";
import { VERSION } from "./command.ts";
import type { Store } from "./store.ts";

/** How often the disk is polled. */
const DISK_POLL_MS = 10_000;

export class ServeStatus implements Status {
  readonly version = VERSION;
  readonly folder: string | undefined;
  readonly url: string;
  disk: Status["disk"];
  /** Set while the server stops. */
  ending: "draining" | "failed" | undefined;
  readonly #store: Store;
  #timer: NodeJS.Timeout | undefined;
  #isPolling = false;

  /** @param folder the data directory; `undefined` for a database. */
  constructor(store: Store, url: string, folder: string | undefined) {
    this.#store = store;
    this.url = url;
    this.folder = folder && path.resolve(folder);
  }

  /** Keeps `disk` up to date until `stop`. Keeps no process alive. */
  async followDisk(): Promise<void> {
    this.#timer = setInterval(() => this.pollDisk(), DISK_POLL_MS).unref();
    await this.pollDisk();
  }

  /** Each poll holds a thread of the pool, so there is one at a time. A disk that hangs is unknown. */
  async pollDisk(): Promise<void> {
    if (this.#isPolling) this.disk = undefined;
    if (this.#isPolling || this.folder === undefined) return;
    this.#isPolling = true;
    const disk = await statfs(this.folder).catch(() => undefined);
    this.disk = disk?.blocks
      ? { freeBytes: disk.bavail * disk.bsize, totalBytes: disk.blocks * disk.bsize }
      : undefined;
    this.#isPolling = false;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  state(): ServiceState {
    return this.ending ?? this.#store.state();
  }

  store() {
    return this.#store.plants.status();
  }

  database() {
    return this.#store.database?.();
  }

  tokens() {
    return this.#store.tokens.list();
  }
}
