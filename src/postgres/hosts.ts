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
import { type DatabaseHost, type DatabaseUrl, formatHost, parseDatabaseUrl } from "./url.ts";
import {
  type DatabaseState,
  explainRefusal,
  NO_STANDBY,
  NotPrimaryError,
  type Server,
  UnusableDatabaseError,
  verifyServer,
  verifyState,
} from "./verify.ts";

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
const BACKOFF_MS_MAX = 250;
/** After so many connections in a row without a response the host in use is gone. */
const SILENT_MAX = 2;
const TOO_MANY_CONNECTIONS = "53300";

type Opened = Server & DatabaseState & { readonly connection: Connection };

export class Hosts {
  isClosed = false;
  /** Why there was no connection the last time. */
  lastError: DatabaseError | undefined;
  readonly #options: HostOptions;
  readonly #connections = new Set<Connection>();
  /** The server that was found last, and whether it is still used. */
  #primary: Server | undefined;
  #isInUse = false;
  #silent = 0;
  #search: Promise<void> | undefined;
  #failedSearches = 0;
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
  get inUse(): string | undefined {
    return this.#isInUse && this.#primary ? formatHost(this.#primary.host) : undefined;
  }

  /** The connections that are open, or being opened. */
  get connections(): Connection[] {
    return [...this.#connections].filter(({ isOpen }) => isOpen);
  }

  /** Statements under way are rejected. */
  closeAll(): void {
    for (const connection of this.#connections) connection.close();
  }

  /** Whether no attempt can succeed before a person acts. */
  isFinal(error: DatabaseError): boolean {
    if (error instanceof UnusableDatabaseError || error.isRefusal) return true;
    // Of a login, or the name of a database: they may change while servers run.
    return this.#store === undefined && /^(28|3D)/.test(error.sqlstate ?? "");
  }

  /** A new connection to the primary. @throws DatabaseError */
  async connect(): Promise<Connection> {
    try {
      return await this.#connect();
    } catch (error) {
      this.lastError = error as DatabaseError;
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    if (!this.#isInUse) await this.find();
    const { host } = this.#primary as Server;
    const name = formatHost(host);
    const { connection, isSynchronous } = await this.#open(host).catch((error: DatabaseError) => {
      // A host without room for another connection is still the primary.
      if (error.sqlstate !== TOO_MANY_CONNECTIONS && this.inUse === name) this.#isInUse = false;
      throw error;
    });
    const isMissing = this.#options.requireSync && !isSynchronous;
    if (this.inUse === name && !isMissing) return connection;
    connection.close();
    throw new DatabaseError(`"${name}": ${isMissing ? NO_STANDBY : "it was replaced meanwhile"}`);
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
    const longest = Math.min(20 * 2 ** this.#failedSearches, BACKOFF_MS_MAX);
    const pauseMs = (longest * clock.randomBytes(4).readUInt32LE()) / 2 ** 32;
    if (this.#failedSearches++ > 0) await sleep(pauseMs);
    const graceMs = this.#isContested ? CONNECT_TIMEOUT_MS : GRACE_MS;
    const { usable, writable, errors } = await this.#ask(this.#readUrl().hosts, graceMs);
    const [best] = usable.sort((a, b) => b.timeline - a.timeline);
    if (best === undefined) {
      if (this.#silent >= SILENT_MAX) this.closeAll();
      throw this.#explainNone(errors);
    }
    const rival = writable.find((each) => isRival(each, best));
    this.#isContested = rival !== undefined;
    if (rival !== undefined) {
      this.#isInUse = false;
      this.closeAll();
      // If it has replaced the best one, it cannot be used.
      if (rival.timeline > best.timeline) throw this.#explainNone(errors);
      const why = `accepts writes on the same timeline (${best.timeline})`;
      const fix = "stop the one that must not be used, or remove it from the URL";
      throw new UnusableDatabaseError(best.host, `"${formatHost(rival.host)}" ${why}: ${fix}`);
    }
    this.#store ??= best.store;
    this.#see(best);
    this.#failedSearches = 0;
    this.#primary = best;
    this.#isInUse = true;
    for (const each of this.#connections) if (formatHost(each.host) !== this.inUse) each.close();
  }

  /** Whether a host that is not in use accepts writes, too: then all are asked again. Never rejects. */
  async askOthers(): Promise<void> {
    const own = this.#primary;
    if (own === undefined) return;
    try {
      const name = formatHost(own.host);
      const hosts = this.#readUrl().hosts.filter((host) => formatHost(host) !== name);
      const { writable } = await this.#ask(hosts, CONNECT_TIMEOUT_MS);
      if (!writable.some((each) => isRival(each, own))) return;
      this.#isContested = true;
      this.#isInUse = false;
      this.closeAll();
    } catch {} // the URL cannot be read now
  }

  /** Asks hosts at once. When one of them can be used, the others have so long to respond. */
  async #ask(hosts: readonly DatabaseHost[], graceMs: number) {
    const usable: Opened[] = [];
    const errors: DatabaseError[] = [];
    const asked = hosts.map(async (host) => {
      try {
        const opened = await this.#open(host);
        opened.connection.close();
        usable.push(opened);
      } catch (error) {
        errors.push(error as DatabaseError);
        throw error;
      }
    });
    await Promise.any(asked).catch(() => {});
    const isDone = usable.length + errors.length === hosts.length;
    if (!isDone) await Promise.race([Promise.allSettled(asked), sleep(graceMs)]);
    const unusable = errors.filter((error) => error instanceof UnusableDatabaseError);
    const writable: Server[] = [...usable, ...unusable.flatMap(({ server }) => server ?? [])];
    return { usable: [...usable], writable, errors: [...errors] };
  }

  /** Why no host can be used. */
  #explainNone(errors: readonly DatabaseError[]): DatabaseError {
    // A standby may be promoted, but not in the place of a primary that is there and cannot be used.
    const deciding = errors.filter((error) => !(error instanceof NotPrimaryError));
    const reason = deciding.find((error) => error instanceof UnusableDatabaseError) ?? deciding[0];
    // While one of the hosts may still come back, what the others respond decides nothing.
    if (reason !== undefined && deciding.every((error) => this.isFinal(error))) return reason;
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
    const isPrimary = this.#primary && formatHost(host) === formatHost(this.#primary.host);
    try {
      await connection.login();
      const rows = await connection.query(CHECK_SERVER);
      const server = verifyServer(host, rows);
      connection.pid = rows[0]?.[3] ?? "";
      if (server.timeline < this.#timeline) {
        const why = `it is on timeline ${server.timeline}, and ${this.#timeline} was seen`;
        throw new NotPrimaryError(`"${formatHost(host)}" was replaced: ${why}`);
      }
      const checking = connection.query(CHECK, [String(requireSync)]);
      const state = verifyState(server, await checking.catch(explainRefusal(server)), this.#store);
      if (this.isClosed) throw new DatabaseError("The store was closed");
      this.#see(server);
      if (isPrimary) this.#silent = 0;
      return { ...server, ...state, connection };
    } catch (error) {
      connection.close();
      if (error instanceof UnusableDatabaseError) this.#see(error.server);
      const isThere = (error as DatabaseError).sqlstate !== undefined;
      if (isPrimary) this.#silent = isThere ? 0 : this.#silent + 1;
      throw error;
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** Before a host was chosen it is not known which of the stores is meant. */
  #see(server: Server | undefined): void {
    if (this.#store === undefined || server === undefined) return;
    this.#timeline = Math.max(this.#timeline, server.timeline);
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

/** Whether a server that accepts writes has replaced another one, or neither has replaced the other. */
function isRival(other: Server, own: Server): boolean {
  return other.timeline >= own.timeline && other.startedAt !== own.startedAt;
}
