/**
 * A database: which of its hosts is in use, and connections to it that are replaced when they break.
 *
 * Invariants. A statement is waited for while its host runs it: to give it up would leave its backend
 * waiting for the standby, and a new one would wait for the same. Twice a second a connection of its
 * own looks at the database. If that takes longer than a second, and two fresh connections in a row
 * fail too, the host is gone, and every connection to it is closed. A connection whose statement is
 * past its deadline is closed if the look finds no statement of the role that takes long.
 *
 * Of several hosts that accept writes the one of the highest timeline is used: each promotion counts it
 * up. A host of a lower timeline than one that was seen is never used again, nor is one of two that
 * neither has replaced, a database of another store, or one whose settings lose what was committed.
 */
import { setMaxListeners } from "node:events";
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { ageMs, type Moment, VERDICT_MS } from "../core/live-tokens.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { DatabaseStatus } from "../core/services.ts";
import {
  Connection,
  DatabaseFault,
  nextStep,
  type PasswordSource,
  type PgModule,
  type Rows,
} from "./connection.ts";
import {
  type DatabaseHost,
  type DatabaseTarget,
  formatHost,
  parseDatabaseUrl,
} from "./database-url.ts";
import { type Inspection, inspect } from "./inspection.ts";
import { awaitStandbys, STARTED_AT } from "./standby-proof.ts";

export interface DatabaseOptions {
  /** The module `pg`. */
  readonly pg: PgModule;
  /** `postgresql://user@host:port,host:port/database?…`; see docs/database.md. */
  readonly url: string;
  /** Used if the URL has no password. */
  readonly password?: PasswordSource | undefined;
  /** Refuses a database whose commits wait for no standby. Default: a warning. */
  readonly requireSync?: boolean | undefined;
}

const CONNECT_LIMIT_MS = 2000;
const LOOK_INTERVAL_MS = 500;
const LOOK_LIMIT_MS = 1000;
/** A look that begins so long after a statement was sent counts it as long, if it is still under way. */
const SEEN_AFTER_MS = 1500;
/** By then two fresh connections were tried. */
const FAILED_LOOKS_MAX = 2;
/** The SQLSTATE of a host that has no room for another connection. */
const NO_ROOM = "53300";
/** Those of a login, or the name of a database, that no waiting makes right. */
const NO_LOGIN = ["28000", "28P01", "3D000", "42501"];
/** How long the other hosts may take to answer, once one of them accepts writes. */
const SILENT_MS = 250;
/** How often the hosts that are not in use are asked whether they accept writes. */
const SEARCH_INTERVAL_MS = 2000;
const BACKOFF_MS = 20;
const BACKOFF_MS_MAX = 250;

/** @internal */
export class Database {
  /** Why no plant may be stored in the database now, and how to mend that. */
  refusal: string | undefined;
  /** Every call is answered within it. */
  readonly deadlineMs: number;
  /** What the newest look found that was answered; of long statements, what the newest look found. */
  inspection: Inspection | undefined;
  /** For statements that only read. */
  readonly reads = new Lane(this);
  /** For writes that wait for no batch of creates: those of the tokens, and creates of held rows. */
  readonly sideWrites = new Lane(this);
  readonly #target: DatabaseTarget;
  readonly #options: DatabaseOptions;
  readonly #connections = new Set<Connection>();
  readonly #closing = new AbortController();
  #inUse: DatabaseHost | undefined;
  /** The host that was used last. */
  #last: DatabaseHost | undefined;
  #search: Promise<DatabaseHost> | undefined;
  #failedSearches = 0;
  #awaySince: number | undefined;
  /** The connection of the looks. */
  #looker: Connection | undefined;
  /** The look under way. */
  #looking: Promise<void> | undefined;
  /** When the newest good look began. */
  #lookedAt: Moment = { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
  #failedLooks = 0;
  /** The id of the store that was found first: no other is used. */
  #store: string | undefined;
  /** The highest timeline that was seen: a host on a lower one was replaced, and is not used. */
  #timeline = 0;
  /** The warning about the standby that was published last. */
  #warned: string | undefined;
  #lastRefused: string | undefined;

  private constructor(options: DatabaseOptions, deadlineMs: number) {
    this.#options = options;
    this.deadlineMs = deadlineMs;
    this.#target = parseDatabaseUrl(options.url);
    setMaxListeners(0, this.#closing.signal); // one for each pause
  }

  /**
   * Finds the host to use, and judges the database.
   *
   * @throws PlantStoreError `io_error` if no host can be used within the deadline, or the login is
   * refused; `corruption` if the database is not one that plants may be stored in.
   * @throws RangeError for a URL that cannot be used.
   */
  static async open(options: DatabaseOptions, deadlineMs: number): Promise<Database> {
    const database = new Database(options, deadlineMs);
    try {
      await database.#lookUntil(clock.monotonicMs() + deadlineMs);
      void database.#keepLooking();
      void database.#keepSearching();
      return database;
    } catch (cause) {
      await database.close();
      const code = cause instanceof UnfitFault ? "corruption" : "io_error";
      throw new PlantStoreError(code, (cause as Error).message, { cause });
    }
  }

  /** Whether it was published that the database is lost, and not yet that it was found. */
  get isLost(): boolean {
    return this.#awaySince !== undefined;
  }

  get #isConnected(): boolean {
    return [...this.#connections].some(({ isOpen }) => isOpen);
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  state(): Omit<DatabaseStatus, "leaseAgeMs"> {
    return {
      host: this.#inUse && formatHost(this.#inUse),
      isSynchronous: this.inspection && this.inspection.unsynchronized === undefined,
    };
  }

  /** Warns once of each reason, which no client receives. */
  noteRefused(fault: DatabaseFault): void {
    const { message } = fault;
    if (message !== this.#lastRefused) publishWarning("The database refuses a statement", fault);
    this.#lastRefused = message;
  }

  /** Ends early when the database is closed. */
  async pause(ms: number, { ref = true } = {}): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const end = () => {
        clock.clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = clock.setTimeout(end, ms);
      if (!ref) timer.unref();
      signal.addEventListener("abort", end);
    });
  }

  /** Closes every connection. Statements under way are rejected. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#connections].map((connection) => connection.close()));
  }

  /**
   * Sends a statement that writes. It resolves after the commit; if a standby is required, after enough
   * standbys have the commit.
   *
   * @param text ends with the list of its RETURNING.
   * @throws DatabaseFault
   */
  async write(
    connection: Connection,
    text: string,
    values: readonly (string | null)[],
  ): Promise<Rows> {
    if (!this.#options.requireSync) return connection.query(text, values);
    const rows = await connection.query(`${text}, ${STARTED_AT}`, values);
    const startedAt = rows[0]?.at(-1);
    if (startedAt !== undefined) await awaitStandbys(connection, startedAt);
    return rows;
  }

  /**
   * A new connection to the host in use, or to another one that can be used.
   *
   * @throws DatabaseFault
   */
  async connect(): Promise<Connection> {
    const host = this.#inUse;
    if (host !== undefined) {
      try {
        return await this.#openInUse(host);
      } catch (cause) {
        // It is still the one to use.
        if ((cause as DatabaseFault).sqlstate === NO_ROOM) throw cause;
        if (this.#inUse === host) this.#inUse = undefined;
      }
    }
    return this.#openInUse(await this.#seek());
  }

  /** Joins the search under way, if any. After a refusal the other hosts are waited for. */
  #seek(
    silentMs = this.refusal === undefined ? SILENT_MS : CONNECT_LIMIT_MS,
  ): Promise<DatabaseHost> {
    this.#search ??= this.#find(silentMs).finally(() => {
      this.#search = undefined;
    });
    return this.#search;
  }

  async #openInUse(candidate: DatabaseHost): Promise<Connection> {
    const { connection, found } = await this.#open(candidate);
    // Looks see only what becomes of the host in use.
    if (this.#inUse === undefined || !isSame(this.#inUse, candidate)) {
      connection.destroy();
      throw new DatabaseFault(`"${formatHost(candidate)}" was replaced meanwhile`);
    }
    this.#note(candidate, found);
    return connection;
  }

  /** Asks every host at once, and takes the one of the highest timeline. */
  async #find(silentMs: number): Promise<DatabaseHost> {
    // Servers that lost the database together must not return together.
    const longest = Math.min(BACKOFF_MS * 2 ** this.#failedSearches, BACKOFF_MS_MAX);
    if (this.#failedSearches > 0)
      await this.pause((longest * clock.randomBytes(4).readUInt32LE()) / 2 ** 32);
    const hosts: Host[] = []; // in the order of the URL, without those that have not answered
    const last = this.#last;
    let full: DatabaseFault | undefined;
    const asked = this.#target.hosts.map(async (candidate, at) => {
      try {
        hosts[at] = { candidate, found: await this.#ask(candidate) };
      } catch (fault) {
        if (fault instanceof UnfitFault && fault.found) {
          hosts[at] = { candidate, found: fault.found, fault };
        }
        const isFull = (fault as DatabaseFault).sqlstate === NO_ROOM;
        if (isFull && last && isSame(candidate, last)) full = fault as DatabaseFault;
        throw fault;
      }
    });
    try {
      await Promise.any(asked);
      await Promise.race([Promise.allSettled(asked), this.pause(silentMs)]);
      const { candidate, found } = chooseHost(hosts.flat());
      // The host that was used is there, although it has no room, unless this one has replaced it.
      if (full !== undefined && found.timeline <= (this.inspection?.timeline ?? 0)) throw full;
      this.#inUse = candidate;
      this.#last = candidate;
      this.#failedSearches = 0;
      for (const each of this.#connections) if (!isSame(each.host, candidate)) each.destroy();
      return candidate;
    } catch (cause) {
      this.#failedSearches++;
      throw cause instanceof AggregateError ? this.#explainNone(cause.errors) : cause;
    }
  }

  /** Why no host can be used. */
  #explainNone(faults: readonly DatabaseFault[]): DatabaseFault {
    const noRoom = faults.find(({ sqlstate }) => sqlstate === NO_ROOM);
    if (noRoom !== undefined) return noRoom;
    const unfit = faults.find((fault) => fault instanceof UnfitFault);
    // A standby may be promoted, but not in the place of a primary that is there and unfit.
    const deciding = unfit ? faults.filter((fault) => !(fault instanceof StandbyFault)) : faults;
    // While one of the hosts may still come back, what the others answer decides nothing.
    const [first] = deciding;
    if (first !== undefined && deciding.every(isFinal)) return unfit ?? first;
    return new DatabaseFault([...new Set(faults.map(({ message }) => message))].join("; "));
  }

  /** @throws DatabaseFault if the host does not accept writes, or must not be used. */
  async #ask(candidate: DatabaseHost): Promise<Inspection> {
    const { connection, found } = await this.#open(candidate);
    void connection.close();
    return found;
  }

  /** Whether another host accepts writes: the one in use may have been replaced without knowing. */
  async #isReplaced(): Promise<boolean> {
    const inUse = this.#inUse;
    if (inUse === undefined) return false;
    const others = this.#target.hosts.filter((candidate) => !isSame(candidate, inUse));
    const asked = await Promise.allSettled(others.map((candidate) => this.#ask(candidate)));
    const own = this.inspection;
    return asked.some(
      (each) => own && each.status === "fulfilled" && !isSameServer(each.value, own),
    );
  }

  /** Connects, and judges the database there. */
  async #open(candidate: DatabaseHost): Promise<{ connection: Connection; found: Inspection }> {
    if (this.isClosed) throw closedFault();
    const deadline = clock.monotonicMs() + CONNECT_LIMIT_MS;
    const { pg, password } = this.#options;
    const connection = await Connection.open(pg, this.#target, candidate, {
      password,
      limitMs: CONNECT_LIMIT_MS,
    });
    for (const other of this.#connections) if (!other.isOpen) this.#connections.delete(other);
    this.#connections.add(connection);
    try {
      const limitMs = Math.max(1, deadline - clock.monotonicMs());
      const found = await this.#inspect(connection, limitMs);
      if (this.isClosed) throw closedFault();
      return { connection, found };
    } catch (cause) {
      connection.destroy();
      throw cause;
    }
  }

  /** @throws DatabaseFault if the database does not answer in time, UnfitFault if it is unfit. */
  async #inspect(connection: Connection, limitMs: number): Promise<Inspection> {
    const label = formatHost(connection.host);
    const timer = clock.setTimeout(() => connection.destroy(), limitMs);
    const inspecting = inspect(connection);
    const found = await inspecting.finally(() => clock.clearTimeout(timer));
    if (found.isInRecovery) throw new StandbyFault(`"${label}" is a standby`);
    const { store, refusal = this.#options.requireSync ? found.unprovable : undefined } = found;
    // Before a host was chosen it is not known which of the stores is meant.
    if (this.#store !== undefined) {
      if (store !== undefined && store !== this.#store) {
        throw new UnfitFault(
          label,
          `it is another store (${store}, not ${this.#store}), made anew or restored; if that ` +
            "is meant, start again",
        );
      }
      if (found.timeline < this.#timeline) {
        throw new StandbyFault(
          `"${label}" was replaced by another host: it is on timeline ${found.timeline}, and ` +
            `timeline ${this.#timeline} was seen`,
        );
      }
      this.#timeline = found.timeline;
    }
    if (refusal !== undefined) throw new UnfitFault(label, refusal, found);
    return found;
  }

  /** Takes what was found at the host in use. @throws DatabaseFault if a required standby is missing. */
  #note(candidate: DatabaseHost, found: Inspection): void {
    const label = formatHost(candidate);
    this.#store ??= found.store;
    this.#timeline = Math.max(this.#timeline, found.timeline);
    this.inspection = found;
    if (this.#options.requireSync && found.unsynchronized !== undefined) {
      this.#closeAll(); // a standby may come back within the deadline
      throw new DatabaseFault(`"${label}" cannot be used: ${found.unsynchronized}`);
    }
    const { unsynchronized } = found;
    if (unsynchronized !== undefined && unsynchronized !== this.#warned) {
      publishWarning(`The database on "${label}": ${unsynchronized}`);
    }
    this.#warned = unsynchronized;
  }

  /**
   * Looks if the newest good look is old, because the process may have been frozen while the settings
   * changed. Never rejects: a look that fails closes connections, except those to a host without room.
   */
  async lookIfOld(): Promise<void> {
    // Twice, because the look under way may have begun before the process was frozen.
    for (let looks = 0; looks < 2 && !this.isClosed; looks++) {
      if (ageMs(this.#lookedAt, clock) < VERDICT_MS) return;
      await this.#look().catch(() => {});
    }
  }

  /** Looks until one succeeds, or waiting longer is of no use. */
  async #lookUntil(deadline: number): Promise<void> {
    for (;;) {
      try {
        return await this.#look();
      } catch (cause) {
        if (isFinal(cause as DatabaseFault) || clock.monotonicMs() >= deadline) throw cause;
      }
      await this.pause(BACKOFF_MS);
    }
  }

  async #keepLooking(): Promise<void> {
    while (!this.isClosed) {
      await this.#look().catch(() => {}); // what is wrong was published
      await this.pause(LOOK_INTERVAL_MS, { ref: false }); // keeps no process alive
    }
  }

  /** Asks the other hosts now and then. If one of them accepts writes, all are judged anew. */
  async #keepSearching(): Promise<void> {
    while (!this.isClosed) {
      await this.pause(SEARCH_INTERVAL_MS, { ref: false });
      if (!(await this.#isReplaced())) continue;
      this.#inUse = undefined;
      this.#closeAll();
      void this.#seek(CONNECT_LIMIT_MS).catch(() => {}); // the look joins it
      await this.#look().catch(() => {}); // what is wrong was published
    }
  }

  /** Joins the look under way, if any. */
  #look(): Promise<void> {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookOnce(): Promise<void> {
    const began = clock.monotonicMs();
    const lookedAt = { monotonicMs: began, wallMs: clock.wallMs() };
    try {
      if (!this.#looker?.isOpen) this.#looker = await this.connect();
      else this.#note(this.#looker.host, await this.#inspect(this.#looker, LOOK_LIMIT_MS));
    } catch (cause) {
      this.#looker?.destroy();
      // Not known any more.
      if (this.inspection) this.inspection = { ...this.inspection, hasLongStatement: false };
      // A host without room for another connection is there, and its statements go on.
      if ((cause as DatabaseFault).sqlstate !== NO_ROOM) this.#failedLooks++;
      const isKnown = cause instanceof UnfitFault || cause instanceof StandbyFault;
      if (isKnown || this.#failedLooks >= FAILED_LOOKS_MAX) this.#closeAll();
      if (this.#store !== undefined && !this.isClosed) this.#noteFault(cause as DatabaseFault);
      throw cause;
    }
    this.#lookedAt = lookedAt;
    this.#failedLooks = 0;
    if (this.refusal !== undefined) publishWarning("The database can be used again");
    this.refusal = undefined;
    if (!this.inspection?.hasLongStatement) this.#closeLate(began);
    if (this.#awaySince === undefined) return;
    const seconds = ((clock.monotonicMs() - this.#awaySince) / 1000).toFixed(1);
    this.#awaySince = undefined;
    publishWarning(`Found the database on "${this.state().host}" after ${seconds} s`);
  }

  /**
   * Closes each connection whose statement is past its deadline and was sent well before a look that
   * found no long statement. The look would have found this one if it ran or waited for anything except
   * its client, so a firewall may have forgotten the connection.
   */
  #closeLate(lookBegan: number): void {
    const since = Math.min(clock.monotonicMs() - this.deadlineMs, lookBegan - SEEN_AFTER_MS);
    for (const connection of this.#connections) {
      if ((connection.busySince ?? since) < since) connection.destroy();
    }
  }

  #closeAll(): void {
    for (const connection of this.#connections) connection.destroy();
  }

  /** Warns once of each refusal, and of each loss. */
  #noteFault(fault: DatabaseFault): void {
    const { message } = fault;
    if (fault instanceof UnfitFault) {
      if (this.refusal !== message) publishWarning(message);
      this.refusal = message;
    } else if (this.#awaySince === undefined && !this.#isConnected) {
      this.#awaySince = clock.monotonicMs();
      publishWarning("Lost the database: requests wait for it until their deadline", fault);
    }
  }
}

/** The database must not be used until it is mended; the message has how. */
class UnfitFault extends DatabaseFault {
  /** What was found there, except in a database of another store. */
  readonly found: Inspection | undefined;

  constructor(host: string, why: string, found?: Inspection) {
    super(`Cannot store plants in the database on "${host}": ${why}`);
    this.found = found;
  }
}

/** The host only follows another one. */
class StandbyFault extends DatabaseFault {}

/** A host that accepts writes. */
interface Host {
  readonly candidate: DatabaseHost;
  readonly found: Inspection;
  /** Why it must not be used. */
  readonly fault?: UnfitFault;
}

/**
 * The host of the highest timeline, of several the first.
 *
 * @throws UnfitFault if it must not be used, or another host of its timeline accepts writes.
 */
function chooseHost(hosts: readonly Host[]): Host {
  const [best, ...others] = hosts.toSorted(
    (a, b) => b.found.timeline - a.found.timeline || Number(!!a.fault) - Number(!!b.fault),
  );
  if (best === undefined) throw new DatabaseFault("No host accepts writes");
  if (best.fault !== undefined) throw best.fault;
  const { timeline } = best.found;
  for (const { candidate, found } of others) {
    if (found.timeline < timeline || isSameServer(found, best.found)) continue;
    throw new UnfitFault(
      formatHost(best.candidate),
      `"${formatHost(candidate)}" accepts writes on the same timeline (${timeline}): stop the one that ` +
        "must not be used, or remove it from the URL",
    );
  }
  return best;
}

/** Whether two names lead to one server, for example through two poolers. */
function isSameServer(a: Inspection, b: Inspection): boolean {
  return a.timeline === b.timeline && a.startedAt === b.startedAt;
}

/** Whether a person has to mend it. */
function isFinal(fault: DatabaseFault): boolean {
  return fault instanceof UnfitFault || NO_LOGIN.includes(fault.sqlstate ?? "");
}

/** Statements one after the other, on a connection that is replaced when it breaks. @internal */
export class Lane {
  readonly #database: Database;
  readonly #turns = new Semaphore(1);
  #connection: Connection | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /** @throws DatabaseFault */
  async connect(): Promise<Connection> {
    await this.#database.lookIfOld();
    if (!this.#connection?.isOpen) this.#connection = await this.#database.connect();
    return this.#connection;
  }

  /**
   * Sends a statement that only reads, until the deadline; one under way then goes on.
   *
   * @throws DatabaseFault
   */
  query(text: string, values: readonly (string | null)[] = []): Promise<Rows> {
    return this.#runUntilDeadline((connection) => connection.query(text, values));
  }

  /** Like `query`, for a statement that writes and may be repeated. */
  write(text: string, values: readonly (string | null)[]): Promise<Rows> {
    return this.#runUntilDeadline((connection) => this.#database.write(connection, text, values));
  }

  #runUntilDeadline<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const { deadlineMs } = this.#database;
    const deadline = clock.monotonicMs() + deadlineMs;
    return within(
      deadlineMs,
      this.run(work, deadlineMs, () => clock.monotonicMs() < deadline),
    );
  }

  /**
   * Runs work that may be repeated, until it succeeds or is refused.
   *
   * @param limitMs after it only a first attempt begins.
   * @param isWanted is asked before each attempt.
   * @throws DatabaseFault
   */
  run<T>(
    work: (connection: Connection) => Promise<T>,
    limitMs: number,
    isWanted = () => true,
  ): Promise<T> {
    const deadline = clock.monotonicMs() + limitMs;
    return this.#turns.run(async () => {
      let fault: unknown;
      for (let attempt = 0; attempt === 0 || clock.monotonicMs() < deadline; attempt++) {
        if (!isWanted()) break;
        try {
          return await work(await this.connect());
        } catch (cause) {
          fault = cause;
          if (!(cause instanceof DatabaseFault && this.#prepareNext(cause))) break;
          if (attempt > 0) await this.#database.pause(Math.min(10 * attempt, 200));
        }
      }
      throw fault ?? new DatabaseFault("The deadline is over");
    });
  }

  /** Whether work may be tried again after a fault; if so, on a new connection if need be. */
  #prepareNext(fault: DatabaseFault): boolean {
    const step = nextStep(fault);
    if (step === "refuse") this.#database.noteRefused(fault);
    if (step === "reconnect") this.#connection?.destroy();
    else if (step !== "again") return false;
    return !this.#database.isClosed;
  }
}

/** The outcome of work, or a fault at the deadline; the work itself goes on. @internal */
export function within<T>(deadlineMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = new DatabaseFault(`The database did not answer within ${deadlineMs} ms`);
    const timer = clock.setTimeout(() => reject(late), deadlineMs);
    work.then(resolve, reject).finally(() => clock.clearTimeout(timer));
  });
}

/** @internal */
export function closedFault(): DatabaseFault {
  return new DatabaseFault("The store was closed");
}

function isSame(a: DatabaseHost, b: DatabaseHost): boolean {
  return a.host === b.host && a.port === b.port;
}
