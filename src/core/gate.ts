/**
 * Lets so many through at once; the others wait for their turn, in their order.
 * What they do behind it is not known here.
 */
export class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  /** Does the work when it is its turn. @returns what the work does, or throws. */
  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next(); // who takes over the place
    }
  }
}
