/** Lets a fixed number of tasks run at once; the others wait in order. */
export class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  /** Calls `work` when there is a place for it, perhaps at once. Call `leave` once the work has ended. */
  enter(work: () => void): void {
    if (this.#free === 0) this.#waiting.push(work);
    else {
      this.#free--;
      work();
    }
  }

  /** Gives a place back: the task that waits longest takes it over. */
  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next();
  }

  /** Runs a task when there is a place for it; resolves or rejects as the task does. */
  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      this.leave();
    }
  }
}
