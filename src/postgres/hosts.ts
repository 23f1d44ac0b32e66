/**
 * The hosts of a database: which of them is the primary, and connections to it.
 *
 * Invariants. If several hosts accept writes, the one with the highest timeline is used: each promotion increments
 * it. No host is used if that one may lose commits by its settings or tables, or has another store; if two have
 * the same timeline, because one is a copy; or if a higher timeline was seen before. No connection
 * to another host stays open once the primary was found.
 */
import { clock, sleep } from "../clock.ts";
import { Semaphore } from "../core/semaphore.ts";
import { Connection, DatabaseError, type PgModule, type Rows, SESSION } from "./connection.ts";
import { CHECK, CHECK_SERVER, explainMissing } from "./schema.ts";
import { type DatabaseHost, type DatabaseUrl, formatHost, parseDatabaseUrl } from "./url.ts";

export interface HostOptions {
  readonly pg: PgModule;
  /** Called for each new connection. */
  readonly url: () => string;
  /** Whether a database is refused whose commits wait for no standby. */
  readonly requireSync: boolean;
}

/** A server that accepts writes. */
interface Server {
  readonly host: DatabaseHost;
  readonly timeline: number;
  /** When it was started: two names of one server have the same. */
  readonly startedAt: string | null | undefined;
  readonly connection: Connection;
  /** That of `CHECK`. */
  readonly row: Rows[number];
}

/** The database must not be used until a person has fixed it; the message says how. */
export class UnusableDatabaseError extends DatabaseError {
  constructor(host: DatabaseHost, why: string) {
    super(`Cannot store plants in the database on "${formatHost(host)}": ${why}`);
  }
}

const CONNECT_TIMEOUT_MS = 2000;
/** How long a round of questions takes, if a host is silent. */
const ROUND_MS = 100;

export class Hosts {
  isClosed = false;
  /** Why a statement failed, or what it waits for. */
  lastError: DatabaseError | undefined;
  /** The parameters of `CHECK` and `PROBE`; the second is the id of the store, once one was found. */
  readonly expected: (string | null)[];
  readonly #options: HostOptions;
  /** The newest connection, and those that were open or opening when it was made. Some may have closed since. */
  connections: readonly Connection[] = [];
  /** The server in use. */
  #primary: Server | undefined;
  #search: Promise<Server> | undefined;
  /** The hosts that are being asked whether they accept writes, by their names. */
  readonly #asking = new Map<string, Promise<Server>>();
  /** The highest one that was seen. */
  #timeline = 0;

  /** @throws RangeError for a URL that cannot be used; TypeError for another driver. */
  constructor(options: HostOptions) {
    this.#options = options;
    this.expected = [String(options.requireSync), null];
    const url = parseDatabaseUrl(options.url());
    for (const host of url.hosts) new Connection(options.pg, url, host);
  }

  /** The host in use; `undefined` while none is. */
  get inUse(): string | undefined {
    return this.#primary && formatHost(this.#primary.host);
  }

  /** Statements under way are rejected. */
  closeAll(): void {
    for (const connection of this.connections) connection.close();
  }

  /** Whether no attempt can succeed before a person acts. */
  isFinal(error: DatabaseError): boolean {
    const { sqlstate = "" } = error;
    // The disk is full, or the statement does not fit the database.
    if (error instanceof UnusableDatabaseError || /^(53100|42)/.test(sqlstate)) return true;
    // Of a login, the name of a database, or a pooler: they may change while servers run.
    return this.expected[1] === null && /^(28|3D|0A|08P01)/.test(sqlstate);
  }

  /** A new connection to the primary. @throws DatabaseError */
  async connect(): Promise<Connection> {
    const primary = this.#primary ?? (await this.#find());
    const { connection, row } = await this.#open(primary.host).catch((error: DatabaseError) => {
      const isFull = error.sqlstate === "53300"; // it has no room for another connection
      if (!isFull && this.#primary === primary) this.#primary = undefined;
      throw error;
    });
    if (!row[0]) return connection;
    connection.close();
    throw new UnusableDatabaseError(primary.host, row[0]);
  }

  /** Asks the hosts that are not in use whether one of them accepts writes, too. Never rejects. */
  async findRivals(): Promise<void> {
    try {
      if (this.#primary === undefined) return void (await this.#find());
      const others = this.#readUrl().hosts.filter((host) => formatHost(host) !== this.inUse);
      const compare = (found: Server) => this.#primary && this.#use([this.#primary, found]);
      await Promise.allSettled(others.map((host) => this.#ask(host).then(compare)));
    } catch {} // the next connection has the reason
  }

  /** Asks all hosts, and uses the primary; joins the search under way, if any. @throws DatabaseError */
  #find(): Promise<Server> {
    this.#search ??= this.#findOnce().finally(() => {
      this.#search = undefined;
    });
    return this.#search;
  }

  /** Asks all hosts every 100 ms until each has responded; after the first that accepts writes, once more. */
  async #findOnce(): Promise<Server> {
    const { hosts } = this.#readUrl();
    const outcomes = new Map<DatabaseHost, Server | DatabaseError>();
    const found = () => [...outcomes.values()].filter((each): each is Server => "row" in each);
    for (let isLast = false; outcomes.size < hosts.length && !isLast; ) {
      isLast = found().length > 0;
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
  #use(servers: readonly Server[]): Server {
    const best = servers.reduce((a, b) => (b.timeline > a.timeline ? b : a));
    const { host, timeline, startedAt, row } = best;
    const rival = servers.find((one) => one.timeline === timeline && one.startedAt !== startedAt);
    const why = rival
      ? `"${formatHost(rival.host)}" accepts writes on the same timeline (${timeline}): stop the one that must ` +
        "not be used, or remove it from the URL"
      : row[0];
    this.#timeline = timeline;
    this.#primary = why ? undefined : best;
    for (const each of this.connections) if (formatHost(each.host) !== this.inUse) each.close();
    if (why) throw new UnusableDatabaseError(host, why);
    this.expected[1] ??= row[1] ?? null;
    return best;
  }

  /** Whether a host accepts writes; joins the question under way, if any. @throws DatabaseError */
  async #ask(host: DatabaseHost): Promise<Server> {
    const name = formatHost(host);
    const asking = this.#asking.get(name) ?? this.#open(host);
    this.#asking.set(name, asking);
    try {
      const server = await asking;
      server.connection.close();
      return server;
    } finally {
      this.#asking.delete(name);
    }
  }

  /** Connects to a host, which must accept writes, in 2 s. @throws DatabaseError */
  async #open(host: DatabaseHost): Promise<Server> {
    const connection = new Connection(this.#options.pg, this.#readUrl(), host);
    this.connections = [...this.connections.filter(({ isOpen }) => isOpen), connection];
    const late = new Error(`no response in ${CONNECT_TIMEOUT_MS} ms`);
    const timer = clock.setTimeout(() => connection.close(late), CONNECT_TIMEOUT_MS);
    const name = formatHost(host);
    try {
      await connection.login();
      const [server = []] = await connection.query(CHECK_SERVER);
      const [isFollowing, hex, startedAt, pid, settings] = server;
      connection.pid = pid ?? "";
      if (isFollowing !== "f") throw new DatabaseError(`"${name}" is a standby`);
      if (settings !== String(SESSION.length)) {
        throw new UnusableDatabaseError(host, "connect to PostgreSQL directly, without a pooler");
      }
      const timeline = Number.parseInt(hex ?? "", 16);
      if (timeline < this.#timeline) {
        throw new DatabaseError(`"${name}" was replaced: timeline ${this.#timeline} was seen`);
      }
      const [row = []] = await connection.query(CHECK, this.expected).catch(explainMissing);
      if (this.isClosed) throw new DatabaseError("The store was closed");
      return { host, timeline, startedAt, connection, row };
    } catch (error) {
      connection.close();
      throw error;
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** @throws DatabaseError if it cannot be read now. */
  #readUrl(): DatabaseUrl {
    try {
      return parseDatabaseUrl(this.#options.url());
    } catch (cause) {
      throw new DatabaseError(`Cannot read the URL of the database: ${(cause as Error).message}`);
    }
  }
}

type Work<T> = (connection: Connection) => Promise<T>;

/** Statements one after the other, on a connection that is replaced when it breaks. */
export class SerialConnection {
  readonly #hosts: Hosts;
  readonly #turn = new Semaphore(1);
  #connection: Connection | undefined;

  constructor(hosts: Hosts) {
    this.#hosts = hosts;
  }

  /** Connects, unless it is connected. @throws DatabaseError */
  async connect(): Promise<Connection> {
    if (!this.#connection?.isOpen) this.#connection = await this.#hosts.connect();
    return this.#connection;
  }

  /**
   * Does work that may be repeated until it succeeds, its failure is final, or it is not wanted any more. After the
   * limit no attempt begins, except the first. @throws DatabaseError, that of the last attempt.
   */
  run<T>(work: Work<T>, limitMs: number, isWanted = () => true): Promise<T> {
    const deadline = clock.monotonicMs() + limitMs;
    return this.#turn.run(async () => {
      for (let pauseMs = 0; ; pauseMs = Math.min(pauseMs + 10, 200)) {
        if (!isWanted()) throw new DatabaseError("No client waits for it any more");
        try {
          return await work(await this.connect());
        } catch (error) {
          if (!(error instanceof DatabaseError) || error.isOfRow) throw error;
          this.#hosts.lastError = error;
          if (this.#hosts.isFinal(error)) throw error;
          this.#connection?.close();
          if (this.#hosts.isClosed || clock.monotonicMs() >= deadline) throw error;
        }
        if (pauseMs > 0) await sleep(pauseMs);
      }
    });
  }
}
