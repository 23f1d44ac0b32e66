/**
 * One pace for all streams of a listener: creates come first.
 *
 * Streams take turns, a slice each, so that a hundred of them take no more of
 * the event loop than one. While there are creates each turn begins with a rest,
 * which a few make short.
 */
import { setImmediate, setTimeout } from "node:timers/promises";

/**
 * A slice takes the event loop half a millisecond (60 to 80 MB/s alone), so all streams take some 3 %
 * of it beside creates that keep it busy: those have 0.81 to 1.02 of their rate (10 M plants).
 */
const REST_MS_MAX = 16;
/** Of rest for each create; where they keep the loop busy, the longest comes of it. */
const CREATE_MS = 1;

/** How a turn begins, after so many creates. */
export type Rest = (creates: number) => Promise<unknown>;

const restOnTimer: Rest = (creates) =>
  creates === 0 ? setImmediate() : setTimeout(Math.min(REST_MS_MAX, creates * CREATE_MS));

export class StreamPace {
  readonly #countCreates: () => number;
  readonly #rest: Rest;
  #creates: number;
  #last: Promise<unknown> = Promise.resolve();

  /** @param countCreates how many creates there were so far. */
  constructor(countCreates: () => number, rest: Rest = restOnTimer) {
    this.#countCreates = countCreates;
    this.#rest = rest;
    this.#creates = countCreates();
  }

  /** Resolves when it is the caller's turn; at once in its place where the caller is over by then. */
  async turn(caller: { readonly isOver: boolean }): Promise<void> {
    const turn = this.#last.then(() => (caller.isOver ? undefined : this.#begin()));
    this.#last = turn;
    await turn;
  }

  #begin(): Promise<unknown> {
    const before = this.#creates;
    this.#creates = this.#countCreates();
    // Asking whether any is under way would not do: a batch is answered all at once.
    return this.#rest(this.#creates - before);
  }
}
