/** Counts of values by size, as Prometheus wants them: each bucket holds what is not above its bound. */
export class Histogram {
  /** Ascending, in the unit of the values. */
  readonly bounds: readonly number[];
  /** Counts of the values that fall between two bounds; the last one is beyond them all. */
  readonly #counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = new Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.bounds.length && value > (this.bounds[at] as number)) at++;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.sum += value;
  }

  /** For each bound, and last for none, how many values there were up to it. */
  cumulative(): number[] {
    let total = 0;
    return this.#counts.map((count) => {
      total += count;
      return total;
    });
  }
}
