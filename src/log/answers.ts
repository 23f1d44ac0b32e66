/**
 * Records that are durable, on their way to who waits for them.
 *
 * Many that became durable together are answered over several turns of the
 * event loop, in their order, so that what else it has to do waits for some of
 * them only. Nobody is answered "stored" once the log has failed. Whether it
 * has is the caller's to say.
 */
import type { PlantStoreError } from "../core/errors.ts";

export interface Answerable {
  readonly offset: number;
  readonly resolve: (offset: number) => void;
  readonly reject: (error: PlantStoreError) => void;
}

/**
 * In one turn. With whole batches a refusal beside 256 connections takes 3 to 8 ms, with these 1 to
 * 4 (p50). Fewer that are left get no turn of their own: that took 5 % of creates (64 connections).
 */
const TURN_MIN = 32;
/** Of those that wait: whatever the loop serves besides, creates keep their part. */
const TURN_SHARE = 1 / 4;

export class Answers {
  readonly #findFailure: () => PlantStoreError | undefined;
  #waiting: Answerable[] = [];
  #answering: Promise<void> | undefined;

  /** @param findFailure asked in every turn why nobody may be answered "stored" any more. */
  constructor(findFailure: () => PlantStoreError | undefined) {
    this.#findFailure = findFailure;
  }

  /** Answers at once, or in the turns to come. */
  add(records: readonly Answerable[]): void {
    this.#waiting = this.#waiting.concat(records);
    if (this.#answering !== undefined) return;
    this.#answerSome();
    if (this.#waiting.length > 0) this.#answering = this.#answerRest();
  }

  /** Waits until all were answered. */
  async drain(): Promise<void> {
    await this.#answering;
  }

  async #answerRest(): Promise<void> {
    while (this.#waiting.length > 0) {
      await nextTurn();
      this.#answerSome();
    }
    this.#answering = undefined;
  }

  #answerSome(): void {
    const { length } = this.#waiting;
    const count = Math.max(TURN_MIN, Math.ceil(length * TURN_SHARE));
    const failure = this.#findFailure();
    for (const { offset, resolve, reject } of this.#waiting.splice(
      0,
      length - count < TURN_MIN ? length : count,
    )) {
      if (failure === undefined) resolve(offset);
      else reject(failure);
    }
  }
}

/** Resolves when the event loop has done what it has to do. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
