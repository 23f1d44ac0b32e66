/** Clients of several stores that repeat every create until it succeeds, and a record of the outcomes. */
import { setTimeout as sleep } from "node:timers/promises";
import type { NewPlant } from "../../src/core/plant.ts";
import type { PlantService } from "../../src/core/services.ts";
import { until } from "../support/watch.ts";

type Creator = Pick<PlantService, "create">;

export class Load {
  /** From now on the clients use these stores. */
  stores: readonly Creator[] = [];
  /** Creates that have succeeded, which the store must have. */
  readonly #acknowledged = new Map<bigint, string>();
  /** What `stop` returns. */
  readonly #counts = { wrong: 0, failed: 0, longestMs: 0 };
  readonly #codes = new Set<string>();
  #clients: Promise<void>[] = [];
  #nextId = 1n;
  #isStopped = false;

  start(clients: number, ...stores: readonly Creator[]): void {
    this.stores = stores;
    this.#clients = Array.from({ length: clients }, (_, client) => this.#run(client));
  }

  /** Resolves when this many more creates have succeeded. */
  async more(count: number): Promise<void> {
    const wanted = this.#acknowledged.size + count;
    await until(`${count} more creates succeed`, () => this.#acknowledged.size >= wanted);
  }

  /**
   * Lets every client finish its create. Returns how many plants a table has lost or changed; how many ids have an
   * impossible outcome (`wrong`); how many calls have failed and were repeated, with their codes; the longest call.
   */
  async stop(list: () => Promise<readonly NewPlant[]>) {
    this.#isStopped = true;
    await Promise.all(this.#clients);
    const stored = new Map((await list()).map(({ id, name }) => [id, name]));
    const all = [...this.#acknowledged];
    const lost = all.filter(([id]) => !stored.has(id)).length;
    const changed = all.filter(([id, name]) => (stored.get(id) ?? name) !== name).length;
    return { acknowledged: all.length, lost, changed, ...this.#counts, codes: [...this.#codes] };
  }

  async #run(client: number): Promise<void> {
    while (!this.#isStopped) {
      const plant = { id: this.#nextId++, name: `plant of client ${client}` };
      if (await this.#create(plant, client)) this.#acknowledged.set(plant.id, plant.name);
    }
  }

  /** Each attempt goes to the next store, as with a load balancer. */
  async #create(plant: NewPlant, client: number): Promise<boolean> {
    const counts = this.#counts;
    for (let tries = client; ; tries++) {
      const begun = performance.now();
      try {
        await this.stores[tries % this.stores.length]?.create(plant);
        return true;
      } catch (error) {
        const { code = String(error) } = error as { code?: string };
        counts.failed++;
        this.#codes.add(code);
        if (code === "conflict") counts.wrong++; // only this client creates the id
        if (code === "closed") this.#isStopped = true; // the test has failed, and ended
        if (code === "conflict" || code === "closed") return false;
        await sleep(5);
      } finally {
        counts.longestMs = Math.max(counts.longestMs, Math.round(performance.now() - begun));
      }
    }
  }
}

/** Creates over HTTP. */
export function overHttp(url: string, token: string): Creator {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return {
    async create({ id, name }) {
      const body = `{"id":${id},"name":${JSON.stringify(name)}}`;
      const { status } = await fetch(`${url}/plants`, { method: "POST", headers, body });
      if (status === 200) return "created";
      const code = status === 400 ? "conflict" : "failed";
      throw Object.assign(new Error(`the response is ${status}`), { code });
    },
  };
}
