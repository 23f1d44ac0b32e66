/**
 * The hosts of a database: which of them is the primary, and connections to it.
 *
 * Invariants. If several hosts accept writes, the one with the highest timeline is used: each promotion increments it.
 * No host is used if that one may lose commits by its settings or tables, or has another store; if two have the same
 * timeline, because one is a copy; or if a higher timeline was seen before.
 */
import { clock, sleep } from "../clock.ts";
import { Semaphore } from "../core/semaphore.ts";
import { Connection, DatabaseError, type PgModule, SESSION } from "./connection.ts";
import { CHECK, CHECK_SERVER, explainMissing } from "./schema.ts";
import { type DatabaseHost, type DatabaseUrl, formatHost, parseDatabaseUrl } from "./url.ts";

export interface PostgresOptions {
  /** The module `pg`, version 8.23 or later. */
  readonly pg: PgModule;
  /** `postgresql://user@host:port,host:port/database`; a function is called for each new connection. */
  readonly url: string | (() => string);
  /** Refuses a database whose commits wait for no standby. Default: a warning. */
  readonly requireSync?: boolean | undefined;
  /** Every call ends within it. Default: 10 s. */
  readonly databaseDeadlineMs?: number | undefined;
  /** Connections for creates; there are up to four more. Default: 4. */
  readonly databaseConnections?: number | undefined;
  /** Waits for a database that is away, with a warning at each deadline. Default: rejects at the first. */
  readonly isPatient?: boolean | undefined;
  /** Default: true. Otherwise no token is accepted, and nothing is written that no call has asked for. */
  readonly followsTokens?: boolean | undefined;
}

/** The database must not be used until a person has fixed it; the message says how. */
export class UnusableDatabaseError extends DatabaseError {
  constructor(host: DatabaseHost, why: string) {
    super(`Cannot store plants in the database on "${formatHost(host)}": ${why}`);
  }
}

const CONNECT_TIMEOUT_MS = 2000;
const ROUND_MS = 100; // of questions, if a host is silent
const START_ROUNDS = 10; // no timeline is known yet, and a slow host may have a higher one

export class Hosts {
  isClosed = false;
  /** Why a statement failed, or what it waits for. */
  lastError = new DatabaseError("The database does not respond");
  /** The parameters of `CHECK` and `PROBE`; the second is the id of the store, once one was found. */
  readonly checkValues: (string | null)[];
  /** The newest connection, and those that were open or opening when it was made. Some may have closed since. */
  connections: readonly Connection[] = [];
  readonly #pg: PgModule;
  readonly #readUrl: () => string;
  /** A connection to the server in use. It may have closed. */
  #primary: Connection | undefined;
  #searching: Promise<Connection> | undefined;
  /** The hosts that are being asked whether they accept writes, by their names. */
  readonly #asking = new Map<string, Promise<Connection>>();
  /** The highest one that was seen. */
  #timeline = 0;

  /** @throws RangeError for a URL that cannot be used; TypeError for another driver. */
  constructor(options: PostgresOptions) {
    const { pg, url, requireSync = false } = options;
    this.#pg = pg;
    this.#readUrl = typeof url === "function" ? url : () => url;
    this.checkValues = [String(requireSync), null];
    const parsed = parseDatabaseUrl(this.#readUrl());
    for (const host of parsed.hosts) new Connection(pg, parsed, host);
  }

  /** The host in use; `undefined` while none is. */
  get inUse(): string | undefined {
    return this.#primary && formatHost(this.#primary.host);
  }

  /** Whether no attempt can succeed before a person acts. */
  isFinal(error: DatabaseError): boolean {
    const { sqlstate = "" } = error;
    // The disk is full, or the statement does not fit the database.
    const isRefused = error instanceof UnusableDatabaseError || /^(53100|42)/.test(sqlstate);
    if (this.isClosed || isRefused) return true;
    // Of a login, the name of a database, or a pooler: they may change while servers run.
    return this.checkValues[1] === null && /^(28|3D|0A|08P01)/.test(sqlstate);
  }

  /** A new connection to the primary. @throws DatabaseError */
  async connect(): Promise<Connection> {
    const primary = this.#primary ?? (await this.#search());
    const connection = await this.#open(primary.host).catch((error: DatabaseError) => {
      // A server that has no room for another connection is still the primary.
      if (error.sqlstate !== "53300" && this.#primary === primary) this.#primary = undefined;
      throw error;
    });
    const [refusal] = connection.row;
    if (!refusal) return connection;
    connection.close();
    throw new UnusableDatabaseError(primary.host, refusal);
  }

  /** Asks the hosts that are not in use whether one of them accepts writes, too. Never rejects. */
  async askOthers(): Promise<void> {
    try {
      if (this.#primary === undefined) return void (await this.#search());
      const others = this.#parseUrl().hosts.filter((host) => formatHost(host) !== this.inUse);
      const compare = (found: Connection) => this.#primary && this.#use([this.#primary, found]);
      await Promise.allSettled(others.map((host) => this.#ask(host).then(compare)));
    } catch {} // the next connection has the reason
  }

  /** Asks all hosts, and uses the primary; joins the search under way, if any. @throws DatabaseError */
  #search(): Promise<Connection> {
    this.#searching ??= this.#askAll().finally(() => {
      this.#searching = undefined;
    });
    return this.#searching;
  }

  /** Asks all hosts every 100 ms until each has responded; after the first that accepts writes, once more. */
  async #askAll(): Promise<Connection> {
    const { hosts } = this.#parseUrl();
    const outcomes = new Map<DatabaseHost, Connection | DatabaseError>();
    const found = () => [...outcomes.values()].filter((each) => each instanceof Connection);
    for (let round = 1, isLast = false; outcomes.size < hosts.length && !isLast; round++) {
      isLast = found().length > 0 && (this.#timeline > 0 || round > START_ROUNDS);
      const asked = hosts.map(async (host) => {
        outcomes.set(host, await this.#ask(host).catch((error: DatabaseError) => error));
      });
      await Promise.race([Promise.all(asked), sleep(ROUND_MS)]);
    }
    if (found().length > 0) return this.#use(found());
    // While one of the hosts may still come back, what the others respond decides nothing.
    const errors = [...outcomes.values()] as DatabaseError[];
    const [first] = errors.every((error) => this.isFinal(error)) ? errors : [];
    throw first ?? new DatabaseError([...new Set(errors.map(({ message }) => message))].join("; "));
  }

  /** Uses the server of the highest timeline, if it may be used. @throws UnusableDatabaseError */
  #use(servers: readonly Connection[]): Connection {
    const best = servers.reduce((a, b) => (b.timeline > a.timeline ? b : a));
    const { host, timeline, startedAt, row } = best;
    const rival = servers.find((one) => one.timeline === timeline && one.startedAt !== startedAt);
    const why = rival
      ? `"${formatHost(rival.host)}" accepts writes on the same timeline (${timeline}): stop the one that must ` +
        "not be used, or remove it from the URL"
      : row[0];
    this.#timeline = timeline;
    this.#primary = why ? undefined : best;
    // So the statements end that wait on a host that was replaced or cut off.
    for (const each of this.connections) if (formatHost(each.host) !== this.inUse) each.close();
    if (why) throw new UnusableDatabaseError(host, why);
    this.checkValues[1] ??= row[1] ?? null;
    return best;
  }

  /** Whether a host accepts writes; joins the question under way, if any. @throws DatabaseError */
  async #ask(host: DatabaseHost): Promise<Connection> {
    const name = formatHost(host);
    const asking = this.#asking.get(name) ?? this.#open(host);
    this.#asking.set(name, asking);
    const server = await asking.finally(() => this.#asking.delete(name));
    server.close();
    return server;
  }

  /** Connects to a host, which must accept writes, in 2 s. @throws DatabaseError */
  async #open(host: DatabaseHost): Promise<Connection> {
    const connection = new Connection(this.#pg, this.#parseUrl(), host);
    this.connections = [...this.connections.filter(({ isOpen }) => isOpen), connection];
    const late = new Error(`no response in ${CONNECT_TIMEOUT_MS} ms`);
    const timer = clock.setTimeout(() => connection.close(late), CONNECT_TIMEOUT_MS);
    const name = formatHost(host);
    try {
      await connection.login();
      const [server = []] = await connection.query(CHECK_SERVER);
      const [isFollowing, hex, startedAt, pid, settings] = server;
      if (isFollowing !== "f") throw new DatabaseError(`"${name}" is a standby`);
      if (settings !== String(SESSION.length)) {
        throw new UnusableDatabaseError(host, "connect to PostgreSQL directly, without a pooler");
      }
      connection.timeline = Number.parseInt(hex ?? "", 16);
      connection.startedAt = startedAt ?? "";
      connection.pid = pid ?? "";
      if (connection.timeline < this.#timeline) {
        throw new DatabaseError(`"${name}" was replaced: timeline ${this.#timeline} was seen`);
      }
      [connection.row = []] = await connection.query(CHECK, this.checkValues).catch(explainMissing);
      if (this.isClosed) throw new DatabaseError("The store was closed");
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** @throws DatabaseError if it cannot be read now. */
  #parseUrl(): DatabaseUrl {
    try {
      return parseDatabaseUrl(this.#readUrl());
    } catch (cause) {
      throw new DatabaseError(`Cannot read the URL of the database: ${(cause as Error).message}`);
    }
  }
}

/** Statements one after the other, on a connection that is replaced when it breaks. */
export class SerialConnection {
  readonly #hosts: Hosts;
  readonly #limitMs: number;
  readonly #turns = new Semaphore(1);
  #connection: Connection | undefined;

  /** @param limitMs how long failed work is repeated: no attempt begins later, except the first. */
  constructor(hosts: Hosts, limitMs: number) {
    this.#hosts = hosts;
    this.#limitMs = limitMs;
  }

  /** Connects, unless it is connected. @throws DatabaseError */
  async connect(): Promise<Connection> {
    if (!this.#connection?.isOpen) this.#connection = await this.#hosts.connect();
    return this.#connection;
  }

  /**
   * Repeats work until it succeeds, its failure is final, nobody wants it any more, or its time is over.
   * @throws DatabaseError that of the last attempt, unless nobody wants it any more.
   */
  run<T>(work: (connection: Connection) => Promise<T>, isWanted = () => true): Promise<T> {
    const deadline = clock.monotonicMs() + this.#limitMs;
    return this.#turns.run(async () => {
      for (let pauseMs = 0; ; pauseMs = Math.min(pauseMs + 10, 200)) {
        if (!isWanted()) throw new DatabaseError("No client waits for it any more");
        try {
          return await work(await this.connect());
        } catch (error) {
          if (!(error instanceof DatabaseError) || error.isOfRow) throw error;
          this.#hosts.lastError = error;
          if (this.#hosts.isFinal(error)) throw error;
          this.#connection?.close();
          if (clock.monotonicMs() >= deadline) throw error;
        }
        if (pauseMs > 0) await sleep(pauseMs);
      }
    });
  }
}
