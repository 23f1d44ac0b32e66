/**
 * The free room of the disk, asked of one that may not answer.
 *
 * A disk that hangs must keep nobody from the other metrics, so after a while
 * the room is not known; and it is asked one question at a time, because each
 * holds a thread of the pool, which creates need too.
 */
import type { Status } from "../core/services.ts";

const DEADLINE_MS = 1000;

export class FreeBytes {
  readonly #status: Pick<Status, "freeBytes">;
  #answer: Promise<number | undefined> | undefined;

  constructor(status: Pick<Status, "freeBytes">) {
    this.#status = status;
  }

  /** `undefined` where it cannot be told, or not soon. Rejects like `Status.freeBytes`. */
  async read(): Promise<number | undefined> {
    this.#answer ??= this.#status.freeBytes().finally(() => {
      this.#answer = undefined;
    });
    this.#answer.catch(() => {}); // it may come when nobody waits any more
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), DEADLINE_MS).unref();
    });
    return Promise.race([this.#answer, late]).finally(() => clearTimeout(timer));
  }
}
