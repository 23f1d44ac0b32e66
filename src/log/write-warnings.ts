/**
 * Warnings of a log that cannot be written, and of one that can be again.
 *
 * A nearly full disk may take one batch and refuse the next, many times a
 * second. Each of the two states is therefore warned about at most once a
 * second. A warning that was held back is published with a later batch, unless
 * the state has changed back, or at the latest by `flush`.
 */
import { publishWarning } from "../core/channels.ts";
import { describeSystemError } from "./file.ts";

const REST_MS = 1000;

export class WriteWarnings {
  readonly #path: string;
  /** Why the last batch was refused; `undefined` if it was written. */
  #refusal: string | undefined;
  /** What the last warning said. */
  #isKnownRefused = false;
  /** When the last warning of each state was published. */
  #refusedAt = Number.NEGATIVE_INFINITY;
  #writtenAt = Number.NEGATIVE_INFINITY;

  /** @param path of the log. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Call it after every batch that the system refused. */
  refused(cause: unknown): void {
    this.#refusal = describeSystemError(cause);
    this.#warn(REST_MS);
  }

  /** Call it after every batch that was written. */
  written(): void {
    this.#refusal = undefined;
    this.#warn(REST_MS);
  }

  /** Publishes a warning that was held back. Call it when no batch follows. */
  flush(): void {
    this.#warn(0);
  }

  #warn(restMs: number): void {
    const isRefused = this.#refusal !== undefined;
    if (isRefused === this.#isKnownRefused) return;
    const now = performance.now();
    if (now - (isRefused ? this.#refusedAt : this.#writtenAt) < restMs) return;
    this.#isKnownRefused = isRefused;
    if (isRefused) this.#refusedAt = now;
    else this.#writtenAt = now;
    publishWarning(
      isRefused
        ? `"${this.#path}" cannot be written, so new plants are refused until it can: ${this.#refusal}`
        : `"${this.#path}" can be written again`,
    );
  }
}
