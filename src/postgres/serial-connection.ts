/** Statements one after the other, on a connection that is replaced when it breaks. */
import { clock, sleep } from "../clock.ts";
import { type Connection, DatabaseError } from "./connection.ts";
import type { Hosts } from "./hosts.ts";

export class SerialConnection {
  readonly #hosts: Hosts;
  #connection: Connection | undefined;
  /** Never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(hosts: Hosts) {
    this.#hosts = hosts;
  }

  /** Connects, unless it is connected. @throws DatabaseError */
  async connect(): Promise<Connection> {
    if (!this.#connection?.isOpen) this.#connection = await this.#hosts.connect();
    return this.#connection;
  }

  /**
   * Does work that may be repeated, until it succeeds or its failure is final.
   *
   * @param limitMs after it no attempt begins, except the first.
   * @param isWanted is asked before each attempt.
   * @throws DatabaseError, that of the last attempt.
   */
  run<T>(
    work: (connection: Connection) => Promise<T>,
    limitMs: number,
    isWanted = () => true,
  ): Promise<T> {
    const deadline = clock.monotonicMs() + limitMs;
    const repeat = async (attempt = 1): Promise<T> => {
      if (!isWanted()) throw new DatabaseError("No client waits for it any more");
      try {
        return await work(await this.connect());
      } catch (error) {
        if (!(error instanceof DatabaseError) || error.isOfRow) throw error;
        if (this.#hosts.isFinal(error)) throw error;
        this.#connection?.close();
        if (this.#hosts.isClosed || clock.monotonicMs() >= deadline) throw error;
      }
      if (attempt > 1) await sleep(Math.min(10 * attempt, 200));
      return repeat(attempt + 1);
    };
    const result = this.#last.then(() => repeat());
    this.#last = result.catch(() => {});
    return result;
  }
}

/** The outcome of work, or an error at the deadline; the work itself goes on. */
export function withTimeout<T>(limitMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new DatabaseError(`The database did not respond in ${limitMs} ms`));
    const timer = clock.setTimeout(late, limitMs);
    const end = () => clock.clearTimeout(timer);
    work.then(end, end);
    work.then(resolve, reject);
  });
}
