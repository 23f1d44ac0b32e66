/** Clients of several stores that repeat every create until it succeeds, and a record of the outcomes. */
import { setTimeout as sleep } from "node:timers/promises";
import type { NewPlant } from "../../src/core/plant.ts";
import type { PlantService } from "../../src/core/services.ts";
import { until } from "../support/watch.ts";

type Creator = Pick<PlantService, "create">;

interface Report {
  /** Creates that have succeeded, which the store must have. */
  readonly acknowledged: ReadonlyMap<bigint, string>;
  /** How many ids have an impossible outcome: a conflict, although only one client creates them. */
  wrong: number;
  /** How many calls have failed and were repeated, and their codes. */
  failed: number;
  readonly codes: Set<string>;
  /** The longest call, whatever its outcome. */
  longestMs: number;
}

export class Load {
  readonly #acknowledged = new Map<bigint, string>();
  readonly #report: Report = {
    acknowledged: this.#acknowledged,
    wrong: 0,
    failed: 0,
    codes: new Set(),
    longestMs: 0,
  };
  #stores: readonly Creator[] = [];
  #clients: Promise<void>[] = [];
  /** Of each client, how many of its creates have succeeded. */
  readonly #succeeded: number[] = [];
  #nextId = 1n;
  #isStopped = false;

  /** From now on the clients use these stores. */
  use(stores: readonly Creator[]): void {
    this.#stores = stores;
  }

  start(clients: number): void {
    this.#clients = Array.from({ length: clients }, (_, client) => this.#run(client));
  }

  /** Resolves when this many more creates have succeeded. */
  async more(count: number): Promise<void> {
    const wanted = this.#acknowledged.size + count;
    await until(`${count} more creates succeed`, () => this.#acknowledged.size >= wanted);
  }

  /** Resolves when the create that each client waits for has succeeded. */
  async all(): Promise<void> {
    const before = [...this.#succeeded];
    await until("every client succeeds", () =>
      this.#succeeded.every((count, at) => count > (before[at] ?? 0)),
    );
  }

  /** Lets every client finish its create. */
  async stop(): Promise<Report> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
    return this.#report;
  }

  async #run(client: number): Promise<void> {
    for (this.#succeeded[client] = 0; !this.#isStopped; this.#succeeded[client]++) {
      const plant = { id: this.#nextId++, name: `plant of client ${client}` };
      if (await this.#create(plant, client)) this.#acknowledged.set(plant.id, plant.name);
    }
  }

  /** Each attempt goes to the next store, as with a load balancer. */
  async #create(plant: NewPlant, client: number): Promise<boolean> {
    const report = this.#report;
    for (let tries = client; ; tries++) {
      const begun = performance.now();
      try {
        await this.#stores[tries % this.#stores.length]?.create(plant);
        return true;
      } catch (error) {
        const { code = String(error) } = error as { code?: string };
        report.failed++;
        report.codes.add(code);
        if (code === "conflict") report.wrong++;
        if (code === "closed") this.#isStopped = true; // the test has failed, and ended
        if (code === "conflict" || code === "closed") return false;
        await sleep(5);
      } finally {
        report.longestMs = Math.max(report.longestMs, Math.round(performance.now() - begun));
      }
    }
  }
}

/** How the rows of a table differ from what was acknowledged. */
export function compare({ acknowledged, codes, ...report }: Report, rows: readonly NewPlant[]) {
  const stored = new Map(rows.map(({ id, name }) => [id, name]));
  const all = [...acknowledged];
  const lost = all.filter(([id]) => !stored.has(id)).length;
  const changed = all.filter(([id, name]) => (stored.get(id) ?? name) !== name).length;
  return { acknowledged: all.length, lost, changed, ...report, codes: [...codes] };
}

export type Cost = ReturnType<typeof compare> & { readonly firstMs: number };

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
