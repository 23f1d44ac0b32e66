/**
 * Statements one after the other, on a connection that is replaced when it breaks; and which failures of a
 * statement are final.
 */
import { clock, sleep } from "../clock.ts";
import { type Connection, DatabaseError } from "./connection.ts";

/** The SQLSTATE of a row that another transaction has locked. */
export const ROW_LOCKED = "55P03";

/** Whether a row is at fault, so that the other rows of its statement may be sent without it. */
export function isOfRow({ sqlstate = "" }: DatabaseError): boolean {
  return sqlstate === ROW_LOCKED || /^2[123]/.test(sqlstate);
}

/** Whether the disk is full, or the statement does not fit the database: sent again it would fail again. */
export function isRefusal({ sqlstate = "" }: DatabaseError): boolean {
  return sqlstate === "53100" || sqlstate.startsWith("42");
}

/** What this needs of a database. */
interface Source {
  readonly isClosed: boolean;
  connect(): Promise<Connection>;
  /** Whether no attempt can succeed before a person acts. */
  isFinal(error: DatabaseError): boolean;
}

export class SerialConnection {
  readonly #source: Source;
  #connection: Connection | undefined;
  /** Never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(source: Source) {
    this.#source = source;
  }

  /** Connects, unless it is connected. @throws DatabaseError */
  async connect(): Promise<Connection> {
    if (!this.#connection?.isOpen) this.#connection = await this.#source.connect();
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
        if (!(error instanceof DatabaseError) || isOfRow(error)) throw error;
        if (this.#source.isFinal(error)) throw error;
        this.#connection?.close();
        if (this.#source.isClosed || clock.monotonicMs() >= deadline) throw error;
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
    work.then(resolve, reject).finally(() => clock.clearTimeout(timer));
  });
}
