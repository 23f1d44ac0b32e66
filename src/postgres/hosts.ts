/**
 * The hosts of a database: which of them is the primary, and connections to it.
 *
 * Invariants. Of several hosts that accept writes the one of the highest timeline is used: each promotion counts
 * it up. A host of a lower timeline than one that was seen is never used again, nor is one of two that neither
 * has replaced, a database of another store, or one whose settings lose what was committed. No connection to
 * another host stays open once the primary was found.
 */
import { clock, sleep } from "../clock.ts";
import { Connection, DatabaseError, type PgModule } from "./connection.ts";
import { CHECK, CHECK_SERVER } from "./schema.ts";
import { isRefusal } from "./serial-connection.ts";
import { type DatabaseHost, type DatabaseUrl, formatHost, parseDatabaseUrl } from "./url.ts";
import {
  explainRefusal,
  NO_STANDBY,
  NotPrimaryError,
  type Server,
  UnusableDatabaseError,
  verifyServer,
  verifyState,
} from "./verify.ts";

/** @internal */
export interface HostOptions {
  readonly pg: PgModule;
  /** Called for each new connection. */
  readonly url: () => string;
  /** Whether a database is refused whose commits wait for no standby. */
  readonly requireSync: boolean;
}

const CONNECT_TIMEOUT_MS = 2000;
/** How long the other hosts may take to respond once one of them accepts writes. */
const GRACE_MS = 250;
const BACKOFF_MS = 20;
const BACKOFF_MS_MAX = 250;
/** After so many searches in a row without a response from the host in use it is gone. */
const LOST_SEARCHES_MAX = 2;
const TOO_MANY_CONNECTIONS = "53300";

/** An open connection, and the server it leads to. */
interface Opened {
  readonly connection: Connection;
  readonly server: Server;
}

/** A host that accepts writes. */
interface Candidate extends Server {
  /** Why it must not be used. */
  readonly refusal?: UnusableDatabaseError;
}

interface Responses {
  readonly found: readonly Candidate[];
  /** By the names of the hosts. */
  readonly errors: ReadonlyMap<string, DatabaseError>;
}

/** @internal */
export class Hosts {
  isClosed = false;
  readonly #options: HostOptions;
  readonly #connections = new Set<Connection>();
  /** The server that was found last, and whether it is still used. */
  #primary: Server | undefined;
  #isInUse = false;
  #search: Promise<void> | undefined;
  #failedSearches = 0;
  #lostSearches = 0;
  /** Whether two hosts accept writes: then no host is left out because it responds late. */
  #isContested = false;
  /** The id of the store that was found first, and the highest timeline that was seen. */
  #store: string | undefined;
  #timeline = 0;

  /** @throws RangeError for a URL that cannot be used; TypeError for another driver. */
  constructor(options: HostOptions) {
    this.#options = options;
    const url = parseDatabaseUrl(options.url());
    for (const host of url.hosts) new Connection(options.pg, url, host);
  }

  /** The host in use; `undefined` while none is. */
  get inUse(): DatabaseHost | undefined {
    return this.#isInUse ? this.#primary?.host : undefined;
  }

  /** The connections that are open, or being opened. */
  get connections(): Connection[] {
    return [...this.#connections].filter(({ isOpen }) => isOpen);
  }

  closeAll(): void {
    for (const connection of this.#connections) connection.close();
  }

  /** Whether no attempt can succeed before a person acts. */
  isFinal(error: DatabaseError): boolean {
    if (error instanceof UnusableDatabaseError || isRefusal(error)) return true;
    // Of a login, or the name of a database: they may change while servers run.
    return this.#store === undefined && /^(28|3D)/.test(error.sqlstate ?? "");
  }

  /** A new connection to the primary. @throws DatabaseError */
  async connect(): Promise<Connection> {
    if (!this.#isInUse) await this.find();
    const { host } = this.#primary as Server;
    const isUsed = () => this.inUse !== undefined && isSameAddress(this.inUse, host);
    const { connection, server } = await this.#open(host).catch((error: DatabaseError) => {
      // A host without room for another connection is still the primary.
      if (error.sqlstate !== TOO_MANY_CONNECTIONS && isUsed()) this.#isInUse = false;
      throw error;
    });
    const label = `"${formatHost(host)}"`;
    const problem = !isUsed()
      ? `${label} was replaced meanwhile`
      : this.#options.requireSync && !server.isSynchronous
        ? `${label} cannot be used: ${NO_STANDBY}` // for now: a standby may come back
        : undefined;
    if (problem === undefined) return connection;
    connection.close();
    throw new DatabaseError(problem);
  }

  /** Asks all hosts, and uses the primary; joins the search under way, if any. @throws DatabaseError */
  find(): Promise<void> {
    this.#search ??= this.#find().finally(() => {
      this.#search = undefined;
    });
    return this.#search;
  }

  async #find(): Promise<void> {
    // Servers that lost the database together must not return together.
    const longest = Math.min(BACKOFF_MS * 2 ** this.#failedSearches, BACKOFF_MS_MAX);
    const pauseMs = (longest * clock.randomBytes(4).readUInt32LE()) / 2 ** 32;
    if (this.#failedSearches++ > 0) await sleep(pauseMs);
    const graceMs = this.#isContested ? CONNECT_TIMEOUT_MS : GRACE_MS;
    const { found, errors } = await this.#ask(this.#readUrl().hosts, graceMs);
    const [best, ...others] = found.toSorted(
      (a, b) => b.timeline - a.timeline || Number(!!a.refusal) - Number(!!b.refusal),
    );
    if (best === undefined || found.every(({ refusal }) => refusal !== undefined)) {
      const isThere = this.#primary && errors.get(formatHost(this.#primary.host))?.sqlstate;
      if (!isThere && ++this.#lostSearches >= LOST_SEARCHES_MAX) this.closeAll();
      throw this.#explainNone([...errors.values()]);
    }
    const rival = others.find(
      (each) => each.timeline === best.timeline && !isSameServer(each, best),
    );
    this.#isContested = rival !== undefined;
    const refusal = rival === undefined ? best.refusal : contest(best, rival);
    if (refusal === undefined) this.#store ??= best.store;
    if (this.#store !== undefined) this.#timeline = Math.max(this.#timeline, best.timeline);
    if (refusal !== undefined) {
      this.#isInUse = false;
      this.closeAll();
      throw refusal;
    }
    this.#failedSearches = 0;
    this.#lostSearches = 0;
    this.#primary = best;
    this.#isInUse = true;
    for (const each of this.#connections) if (!isSameAddress(each.host, best.host)) each.close();
  }

  /** Whether a host that is not in use accepts writes, too: then all are asked again. Never rejects. */
  async askOthers(): Promise<void> {
    const own = this.#primary;
    if (own === undefined) return;
    try {
      const others = this.#readUrl().hosts.filter((host) => !isSameAddress(host, own.host));
      const { found } = await this.#ask(others, CONNECT_TIMEOUT_MS);
      const isRival = (each: Server) => each.timeline >= own.timeline && !isSameServer(each, own);
      if (own !== this.#primary || !found.some(isRival)) return;
      this.#isContested = true;
      this.#isInUse = false;
      this.closeAll();
    } catch {} // the URL cannot be read now
  }

  /** Asks hosts at once. When one of them can be used, the others have so long to respond. */
  async #ask(hosts: readonly DatabaseHost[], graceMs: number): Promise<Responses> {
    const found: Candidate[] = [];
    const errors = new Map<string, DatabaseError>();
    let missing = hosts.length;
    const asked = hosts.map(async (host) => {
      try {
        const { connection, server } = await this.#open(host);
        connection.close();
        found.push(server);
      } catch (error) {
        errors.set(formatHost(host), error as DatabaseError);
        const isThere = error instanceof UnusableDatabaseError && error.server !== undefined;
        if (isThere) found.push({ ...(error.server as Server), refusal: error });
        throw error;
      } finally {
        missing--;
      }
    });
    await Promise.any(asked).catch(() => {});
    if (missing > 0) await Promise.race([Promise.allSettled(asked), sleep(graceMs)]);
    return { found: [...found], errors: new Map(errors) };
  }

  /** Why no host can be used. */
  #explainNone(errors: readonly DatabaseError[]): DatabaseError {
    const full = errors.find(({ sqlstate }) => sqlstate === TOO_MANY_CONNECTIONS);
    if (full !== undefined) return full;
    const unusable = errors.find((error) => error instanceof UnusableDatabaseError);
    // A standby may be promoted, but not in the place of a primary that is there and cannot be used.
    const deciding = unusable
      ? errors.filter((each) => !(each instanceof NotPrimaryError))
      : errors;
    const [first] = deciding;
    // While one of the hosts may still come back, what the others respond decides nothing.
    if (first !== undefined && deciding.every((each) => this.isFinal(each))) {
      return unusable ?? first;
    }
    return new DatabaseError([...new Set(errors.map(({ message }) => message))].join("; "));
  }

  /** Connects to a host, which must be the primary of this store, in 2 s. @throws DatabaseError */
  async #open(host: DatabaseHost): Promise<Opened> {
    const { pg, requireSync } = this.#options;
    const connection = new Connection(pg, this.#readUrl(), host);
    for (const other of this.#connections) if (!other.isOpen) this.#connections.delete(other);
    this.#connections.add(connection);
    const late = new Error(`no response in ${CONNECT_TIMEOUT_MS} ms`);
    const timer = clock.setTimeout(() => connection.close(late), CONNECT_TIMEOUT_MS);
    try {
      await connection.login();
      const found = verifyServer(host, await connection.query(CHECK_SERVER));
      connection.pid = found.pid;
      if (found.timeline < this.#timeline) {
        throw new NotPrimaryError(
          `"${formatHost(host)}" was replaced: it is on timeline ${found.timeline}, and timeline ` +
            `${this.#timeline} was seen`,
        );
      }
      const [row] = await connection.query(CHECK).catch((error) => {
        throw explainRefusal(found, error);
      });
      const server = verifyState(found, row, { requireSync, store: this.#store });
      if (this.isClosed) throw new DatabaseError("The store was closed");
      return { connection, server };
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

function contest(best: Server, rival: Server): UnusableDatabaseError {
  const why =
    `"${formatHost(rival.host)}" accepts writes on the same timeline (${best.timeline}): stop the one ` +
    "that must not be used, or remove it from the URL";
  return new UnusableDatabaseError(best, why, best);
}

/** Whether two names lead to one server. */
function isSameServer(a: Server, b: Server): boolean {
  return a.timeline === b.timeline && a.startedAt === b.startedAt;
}

function isSameAddress(a: DatabaseHost, b: DatabaseHost): boolean {
  return a.host === b.host && a.port === b.port;
}
