/** Clients of several stores that repeat every create until it is answered, and a record of the answers. */
import { setTimeout as sleep } from "node:timers/promises";
import type { NewPlant } from "../../src/core/plant.ts";
import type { PlantService } from "../../src/core/services.ts";
import { until } from "../support/watch.ts";

type Creator = Pick<PlantService, "create">;

export interface Report {
  /** Answered creates, which the store must have. */
  readonly acknowledged: ReadonlyMap<bigint, string>;
  /** Impossible answers: a conflict for an id that only one client creates. */
  readonly wrong: readonly string[];
  /** Calls that ended with an error and were repeated. */
  readonly failed: number;
  /** The codes of their errors. */
  readonly codes: readonly string[];
  /** The longest call, whatever its outcome. */
  readonly longestMs: number;
}

/** The longest of some calls. */
interface Longest {
  ms: number;
}

export class Load {
  #stores: readonly Creator[];
  readonly #acknowledged = new Map<bigint, string>();
  readonly #wrong: string[] = [];
  readonly #clients: Promise<void>[];
  /** Of each client, how many of its creates are answered. */
  readonly #answered: number[];
  #nextId = 1n;
  #failed = 0;
  readonly #codes = new Set<string>();
  readonly #longest: Longest = { ms: 0 };
  #isStopped = false;

  constructor(stores: readonly Creator[], clients: number) {
    this.#stores = stores;
    this.#answered = Array(clients).fill(0);
    this.#clients = Array.from({ length: clients }, (_, at) => this.#run(at));
  }

  get acknowledged(): number {
    return this.#acknowledged.size;
  }

  get failed(): number {
    return this.#failed;
  }

  /** Resolves when this many more creates are answered. */
  async more(count: number): Promise<void> {
    const wanted = this.acknowledged + count;
    await until(`${count} more creates are answered`, () => this.acknowledged >= wanted);
  }

  /** Resolves when the create that each client waits for is answered. */
  async all(): Promise<void> {
    const before = [...this.#answered];
    await until("every client is answered", () =>
      this.#answered.every((count, at) => count > (before[at] ?? 0)),
    );
  }

  /** From now on the clients use these stores. */
  use(stores: readonly Creator[]): void {
    this.#stores = stores;
  }

  /** Lets every client finish its create. */
  async stop(): Promise<Report> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
    return {
      acknowledged: this.#acknowledged,
      wrong: this.#wrong,
      failed: this.#failed,
      codes: [...this.#codes],
      longestMs: this.#longest.ms,
    };
  }

  async #run(client: number): Promise<void> {
    while (!this.#isStopped) {
      await this.#createPlant(this.#nextId++, client, this.#longest);
      this.#answered[client] = (this.#answered[client] ?? 0) + 1;
    }
  }

  async #createPlant(id: bigint, client: number, longest: Longest): Promise<void> {
    const plant = { id, name: `plant ${id} of client ${client}` };
    if (await this.#create(plant, client, longest)) this.#acknowledged.set(id, plant.name);
  }

  /** Each attempt goes to the next store, as with a load balancer. */
  async #create(plant: NewPlant, client: number, longest: Longest): Promise<boolean> {
    for (let tries = client; ; tries++) {
      const begun = performance.now();
      try {
        await this.#stores[tries % this.#stores.length]?.create(plant);
        return true;
      } catch (error) {
        this.#failed++;
        const { code = String(error) } = error as { code?: string };
        this.#codes.add(code);
        if (code === "conflict") this.#wrong.push(String(plant.id));
        if (code === "closed") this.#isStopped = true; // the test has failed, and ended
        if (code === "conflict" || code === "closed") return false;
        await sleep(5);
      } finally {
        longest.ms = Math.max(longest.ms, performance.now() - begun);
      }
    }
  }
}

/** How the rows of a table differ from what was acknowledged. */
export function compare(report: Report, rows: readonly NewPlant[]) {
  const stored = new Map(rows.map(({ id, name }) => [id, name]));
  let lost = 0;
  let changed = 0;
  for (const [id, name] of report.acknowledged) {
    const found = stored.get(id);
    if (found === undefined) lost++;
    else if (found !== name) changed++;
  }
  return { lost, changed, wrong: report.wrong.length };
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
