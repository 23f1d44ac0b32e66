/** Reads under way, which the close of a store waits for. */
export class Reads {
  readonly #reads = new Set<Promise<unknown>>();

  /** Has a close wait for a read, and for what is begun in the turn in which it ends. */
  hold<T>(read: Promise<T>): Promise<T> {
    const release = () => this.#reads.delete(read);
    this.#reads.add(read);
    read.then(release, release);
    return read;
  }

  /** Resolves once there is none. */
  async end(): Promise<void> {
    while (this.#reads.size > 0) await Promise.allSettled(this.#reads);
  }
}
