/**
 * Statements over a database: the probe, the proof of commits, and the warnings.
 *
 * Invariants. A statement that waits for its standby is not abandoned: the server would keep its process, and a new
 * statement would wait as well. One probe, twice a second, is the lease of the
 * primary, and the poll of the tokens and of the settings. While a statement is slow, the other hosts are asked
 * whether one of them was promoted. A statement that is past its deadline, and on which the server does not
 * work, has lost its connection.
 */
import { clock, sleep } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { startAge } from "../core/live-tokens.ts";
import type { Timer } from "../core/services.ts";
import { type Connection, DatabaseError, type Rows } from "./connection.ts";
import { type HostOptions, Hosts, SerialConnection, UnusableDatabaseError } from "./hosts.ts";
import { explainMissing, LIST_TOKENS, NO_STANDBY, PROBE, STANDBYS, WORKING } from "./schema.ts";

/** While a statement takes longer, the other hosts are asked again and again. */
const SLOW_MS = 200;
/** After so many times this long they are asked in any case. */
const TICKS = 10;

const NO_COMMITS =
  "The database confirms no commit; its synchronous standby may be missing. Until it is back, requests with a " +
  "token get 503";

export class Database {
  /** Every call ends within it. */
  readonly deadlineMs: number;
  readonly hosts: Hosts;
  /** For statements that only read. */
  readonly reads: SerialConnection;
  /** For creates of locked rows. */
  readonly writes: SerialConnection;
  /** For changes of the tokens, which wait for no create. */
  readonly changes: SerialConnection;
  readonly #probes: SerialConnection;
  readonly #requireSync: boolean;
  readonly #watching: Timer;
  #ticks = 0;
  /** The estimate of the engine; `undefined` before its first one. */
  plants: number | undefined;
  /** Whether commits wait for a standby, once it is known. */
  isSynchronous: boolean | undefined;
  /** Since the newest probe that the primary has committed began. */
  leaseAge = () => 0;
  /** Why no probe commits, and when it was said last. */
  #warned = "";
  #warnedAt = 0;
  #lastRefusal = "";

  /** @throws RangeError for a URL that cannot be used; TypeError for another driver. */
  constructor(options: HostOptions & { readonly deadlineMs: number }) {
    this.deadlineMs = options.deadlineMs;
    this.#requireSync = options.requireSync;
    this.hosts = new Hosts(options);
    this.#watching = clock.setInterval(() => this.#watch(), SLOW_MS);
    this.#watching.unref();
    this.reads = new SerialConnection(this.hosts);
    this.writes = new SerialConnection(this.hosts);
    this.changes = new SerialConnection(this.hosts);
    this.#probes = new SerialConnection(this.hosts);
  }

  /**
   * Resolves after the commit of a statement; if a standby is required, once enough of them have flushed a position of
   * the log that was read after it. The setting alone proves nothing: when it is emptied, commits that wait are
   * reported as successes, and when it is filled, sessions show it before commits wait.
   *
   * @throws DatabaseError
   */
  async write(connection: Connection, text: string, values?: Rows[number]): Promise<Rows> {
    const rows = await connection.query(text, values);
    let position: string | null = null;
    for (let pauseMs = 1; this.#requireSync; pauseMs = Math.min(2 * pauseMs, 50)) {
      const [row]: Rows = await connection.query(STANDBYS, [position]);
      if (row?.[1] === "t") break;
      position = row?.[0] ?? null;
      await sleep(pauseMs);
    }
    return rows;
  }

  /**
   * Commits on the primary, verifies the database, and reads the tokens if their version may have changed.
   * Waits for a commit as long as it takes. Returns its age, too.
   *
   * @throws DatabaseError if there is no primary at the deadline, or the database cannot be used.
   */
  async probe(version: string) {
    const warn = () => this.#warn(this.hosts.lastError);
    const timer = clock.setInterval(warn, this.deadlineMs);
    try {
      return await this.#probes.run((each) => this.#probe(each, version), this.deadlineMs);
    } catch (error) {
      this.#warn(error as DatabaseError);
      throw error;
    } finally {
      clock.clearInterval(timer);
    }
  }

  async #probe(connection: Connection, known: string) {
    const age = startAge(clock);
    const { hosts } = this;
    hosts.lastError = new DatabaseError(NO_COMMITS); // what a start reports if no probe ever commits
    const rows = await this.write(connection, PROBE, hosts.expected).catch(explainMissing);
    const [refusal, , standbys, estimate, changes] = rows[0] ?? [];
    if (refusal) {
      hosts.closeAll();
      throw new UnusableDatabaseError(connection.host, refusal);
    }
    const isSynchronous = standbys !== "";
    if (!isSynchronous && this.isSynchronous !== false) publishWarning(NO_STANDBY);
    this.isSynchronous = isSynchronous;
    this.plants = Number(estimate) >= 0 ? Number(estimate) : undefined;
    this.leaseAge = age;
    if (this.#warned) publishWarning(`Reconnected to the database at "${hosts.inUse}"`);
    this.#warned = "";
    const version = `${connection.pid} ${changes}`; // another server may have other tokens
    const tokens = version === known ? undefined : await connection.query(LIST_TOKENS);
    return { age, version, tokens };
  }

  /** Asks the other hosts while a statement is slow, and at times in any case: one may have been promoted. */
  #watch(): void {
    if (this.hosts.isClosed) clock.clearInterval(this.#watching);
    const isDue = ++this.#ticks % TICKS === 0;
    if (isDue || this.#listSlow(SLOW_MS).length > 0) void this.hosts.findRivals();
    if (isDue) void this.#closeForgotten();
  }

  /** The connections whose statement was sent so long ago. */
  #listSlow(ms: number): Connection[] {
    const now = clock.monotonicMs();
    return this.hosts.connections.filter(({ busySince = now }) => now - busySince >= ms);
  }

  /** Closes late connections of which the server knows nothing, or waits for a statement. Never rejects. */
  async #closeForgotten(): Promise<void> {
    const late = this.#listSlow(Math.max(this.deadlineMs, SLOW_MS * TICKS));
    if (late.length === 0) return;
    try {
      const connection = await this.hosts.connect();
      const working = await connection.query(WORKING).finally(() => connection.close());
      for (const each of late) if (!working.flat().includes(each.pid)) each.close();
    } catch (error) {
      this.#warn(error as DatabaseError);
    }
  }

  /** Warns of each reason once, and again at each deadline. */
  #warn({ message = NO_COMMITS }: Partial<Error> = {}): void {
    const now = clock.monotonicMs();
    const isKnown = message === this.#warned && now - this.#warnedAt < this.deadlineMs;
    if (isKnown || this.hosts.isClosed) return;
    this.#warned = message;
    this.#warnedAt = now;
    publishWarning(message);
  }

  /** Warns once of each reason why a statement is refused, which no client receives. */
  warnOfRefusal(error: DatabaseError): void {
    if (error.sqlstate === undefined || error.message === this.#lastRefusal) return;
    this.#lastRefusal = error.message;
    publishWarning("The database refuses a statement", error);
  }
}
