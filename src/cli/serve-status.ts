/** What a server of the command line is at, for its admin listener. */
import { statfs } from "node:fs/promises";
import type {
  PlantStore,
  ServiceState,
  Status,
  StoreStatus,
  TokenRegistry,
  TokenStatus,
} from "../index.ts";

export class ServeStatus implements Status {
  readonly #data: string;
  #state: ServiceState = "starting";
  #store: PlantStore | undefined;
  #tokens: TokenRegistry | undefined;

  /** @param data the data directory, which need not be there yet. */
  constructor(data: string) {
    this.#data = data;
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
