/**
 * Work in the background that leaves the machine to whoever is waited for.
 *
 * Done in small pieces with a rest after each: as long as it takes for the work
 * to be a given share of the time. A piece that takes long, because others keep
 * processor or disk busy, is followed by a long rest, of ten minutes at most. Keeps
 * no process alive.
 */
import timers from "node:timers/promises";

/**
 * A piece takes milliseconds, or seconds on a busy disk. One that took longer was held
 * up, by a disk that hung or a machine that slept, and was no work that anybody felt.
 */
const REST_MS_MAX = 600_000;

export class Pace {
  readonly #restPerWork: number;
  readonly #signal: AbortSignal;
  #since = performance.now();

  /**
   * @param share of the time that may be worked, above 0 and at most 1.
   * @param signal ends a rest at once.
   */
  constructor(share: number, signal: AbortSignal) {
    this.#restPerWork = 1 / share - 1;
    this.#signal = signal;
  }

  /** Rests for what was worked since the last rest. @throws once the signal is aborted. */
  async rest(): Promise<void> {
    this.#signal.throwIfAborted();
    const worked = performance.now() - this.#since;
    const ms = Math.min(worked * this.#restPerWork, REST_MS_MAX);
    if (ms > 0) await timers.setTimeout(ms, undefined, { ref: false, signal: this.#signal });
    this.#since = performance.now();
  }
}
