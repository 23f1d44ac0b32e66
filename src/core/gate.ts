/** Lets a number of tasks run at once. The others wait: clients take turns, and those of one go in order. */
export class Gate {
  #free: number;
  /** By their clients; the first has the next turn. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(places: number) {
    this.#free = places;
  }

  /** Calls `work` when there is a place for it, perhaps at once. Call `leave` once the work has ended. */
  enter(work: () => void, client = ""): void {
    if (this.#free > 0) {
      this.#free--;
      work();
      return;
    }
    const tasks = this.#waiting.get(client);
    if (tasks === undefined) this.#waiting.set(client, [work]);
    else tasks.push(work);
  }

  /** Gives a place back: the next task takes it over. */
  leave(): void {
    const [turn] = this.#waiting;
    if (turn === undefined) {
      this.#free++;
      return;
    }
    const [client, tasks] = turn;
    const next = tasks.shift();
    this.#waiting.delete(client);
    if (tasks.length > 0) this.#waiting.set(client, tasks);
    next?.();
  }

  /** Runs a task when there is a place for it; resolves or rejects as the task does. */
  async pass<T>(work: () => Promise<T>, client?: string): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.enter(resolve, client));
    try {
      return await work();
    } finally {
      this.leave();
    }
  }
}
