/**
 * Statements over a database: the probe, the proof of commits, and the warnings.
 *
 * Invariants. A statement that waits for its standby is not abandoned: the server would keep its process, and a new
 * statement would wait as well. One probe, twice a second, is the lease of the primary, and the poll of the tokens and
 * of the settings. While a statement is slow, the other hosts are asked whether one of them was promoted. A statement
 * that is past its deadline, and on which the server does not work, has lost its connection.
 */
import { clock, sleep } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { startAge } from "../core/live-tokens.ts";
import { NUMBER_OPTIONS } from "../core/options.ts";
import type { Timer } from "../core/services.ts";
import { type Connection, DatabaseError, type Rows } from "./connection.ts";
import { Hosts, type PostgresOptions, SerialConnection, UnusableDatabaseError } from "./hosts.ts";
import { explainMissing, listTokens, NO_STANDBY, PROBE, STANDBYS, WORKING } from "./schema.ts";

/** While a statement takes longer, the other hosts are asked so often. */
const SLOW_MS = 200;
/** After so many times this long they are asked in any case. */
const TICKS = 10;
/** After so many, each reason is warned of again. */
const WARNING_TICKS = 50;

const NO_COMMITS =
  "The database confirms no commit; its synchronous standby may be missing. Until it is back, requests with a " +
  "token get 503";

export class Database {
  /** Every call ends within it. */
  readonly deadlineMs: number;
  readonly hosts: Hosts;
  /** For statements that only read. */
  readonly reads: SerialConnection;
  /** For creates that are tried later, each on its own: the next one waits for no other attempt. */
  readonly retries: SerialConnection;
  /** For changes of the tokens, which wait for no create. */
  readonly changes: SerialConnection;
  readonly #probes: SerialConnection;
  readonly #requireSync: boolean;
  #ticks = 0;
  /** The estimate of the engine; `undefined` before its first one. */
  plants: number | undefined;
  /** Whether commits wait for a standby, once it is known. */
  isSynchronous: boolean | undefined;
  /** Since the newest probe that the primary has committed began; at first, since the start. */
  leaseAge: () => number;
  #tokenVersion = "";
  /** What was warned of in the last seconds. */
  readonly #warned = new Set<string>();

  /** @throws RangeError for a URL that cannot be used; TypeError for another driver. */
  constructor(options: PostgresOptions) {
    this.deadlineMs = options.databaseDeadlineMs ?? NUMBER_OPTIONS.databaseDeadlineMs.default;
    this.#requireSync = options.requireSync ?? false;
    this.hosts = new Hosts(options);
    this.leaseAge = options.followsTokens === false ? () => 0 : startAge(clock);
    const watching = clock.setInterval(() => this.#watch(watching), SLOW_MS);
    watching.unref();
    this.reads = new SerialConnection(this.hosts, this.deadlineMs);
    this.retries = new SerialConnection(this.hosts, 0);
    this.changes = new SerialConnection(this.hosts, this.deadlineMs);
    this.#probes = new SerialConnection(this.hosts, this.deadlineMs);
  }

  /**
   * Resolves after the commit of a statement; if a standby is required, once enough of them have flushed a position of
   * the log that was read after it. The setting alone proves nothing: when it is emptied, commits that wait are
   * reported as successes, and when it is filled, sessions show it before commits wait. @throws DatabaseError
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
   * Commits on the primary, however long that takes, verifies the database, and reads the tokens if they may have
   * changed. @throws DatabaseError if there is no primary at the deadline, or the database cannot be used.
   */
  probe() {
    return this.#probes.run(async (connection) => {
      const age = startAge(clock);
      const { hosts } = this;
      hosts.lastError = new DatabaseError(NO_COMMITS); // reported if it never commits
      const rows = await this.write(connection, PROBE, hosts.checkValues).catch(explainMissing);
      const [refusal, , standbys, estimate, changes] = rows[0] ?? [];
      if (refusal) {
        for (const each of hosts.connections) each.close();
        throw new UnusableDatabaseError(connection.host, refusal);
      }
      const isSynchronous = standbys !== "";
      if (!isSynchronous && this.isSynchronous !== false) publishWarning(NO_STANDBY);
      this.isSynchronous = isSynchronous;
      this.plants = Number(estimate) >= 0 ? Number(estimate) : undefined;
      const isBack = this.leaseAge() >= this.deadlineMs;
      if (isBack) publishWarning(`Reconnected to the database at "${hosts.inUse}"`);
      this.leaseAge = age;
      const version = `${connection.pid} ${changes}`; // another server may have other tokens
      if (version === this.#tokenVersion) return { age };
      const tokens = await listTokens(connection);
      this.#tokenVersion = version;
      return { age, tokens };
    });
  }

  /** Asks the other hosts while a statement is slow, and at times in any case: one may have been promoted. */
  #watch(watching: Timer): void {
    if (this.hosts.isClosed) clock.clearInterval(watching);
    const isDue = ++this.#ticks % TICKS === 0;
    if (isDue || this.#listSlow(SLOW_MS).length > 0) void this.hosts.askOthers();
    if (isDue) void this.#closeForgotten();
    if (this.leaseAge() >= this.deadlineMs) this.warn(this.hosts.lastError);
    if (this.#ticks % WARNING_TICKS === 0) this.#warned.clear();
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
      this.warn(error as DatabaseError);
    }
  }

  /** Warns of a reason why statements fail, which no client receives. */
  warn({ message }: DatabaseError): void {
    if (this.hosts.isClosed || this.#warned.has(message)) return;
    this.#warned.add(message);
    publishWarning(message);
  }
}
