/**
 * The end of a log that could not be put aside for want of room: tried again
 * when somebody wants to append, by one at a time and at most once a second.
 */
import { PlantStoreError } from "../core/errors.ts";
import type { Checkpoint } from "../log/checkpoint.ts";
import { describeSystemError } from "../log/system-error.ts";

const RETRY_AFTER_SECONDS = 1;

export class Settling {
  readonly #settle: () => Promise<Checkpoint>;
  #attempt: Promise<Checkpoint> | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(settle: () => Promise<Checkpoint>) {
    this.#settle = settle;
  }

  /**
   * Resolves with the new end of the log once it is settled.
   *
   * @throws PlantStoreError `not_stored`; `locked` when another process writes the log.
   */
  attempt(): Promise<Checkpoint> {
    if (
      this.#attempt === undefined ||
      performance.now() - this.#failedAt > 1000 * RETRY_AFTER_SECONDS
    ) {
      this.#failedAt = Number.POSITIVE_INFINITY; // not before this attempt has failed
      this.#attempt = this.#settle().catch((error: Error) => {
        this.#failedAt = performance.now();
        if (error instanceof PlantStoreError && error.code === "locked") throw error;
        throw refusal(error.cause ?? error);
      });
    }
    return this.#attempt;
  }

  /** Waits for an attempt under way. */
  async drain(): Promise<void> {
    await this.#attempt?.catch(() => {});
  }
}

function refusal(cause: unknown): PlantStoreError {
  return new PlantStoreError(
    "not_stored",
    `Cannot store it now: ${describeSystemError(cause)}; ` +
      "nothing was stored: send the request again later",
    { cause, retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}
