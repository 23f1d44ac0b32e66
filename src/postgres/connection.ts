/**
 * One connection to one host, through the driver that the caller hands in.
 *
 * Invariants. The settings of the session are part of its login, so no role and no database decides them. `query`
 * resolves only after the commit: the server has reported that it is ready for the next statement. A warning that the
 * commit may not have reached the standby makes the outcome unknown. Nothing is ever cancelled: PostgreSQL reports a
 * cancelled wait for the standby as a success.
 */
import net from "node:net";
import tls from "node:tls";
import { clock } from "../clock.ts";
import { escapeControls } from "../core/text.ts";
import { type DatabaseHost, type DatabaseUrl, formatHost } from "./url.ts";

/** The package `pg`, version 8.23 or later; not its binding to libpq (`pg.native`). */
export interface PgModule {
  // biome-ignore lint/suspicious/noExplicitAny: the driver's own types are not needed to use it
  readonly Client: { new (config: any): any };
}

/** The rows of a result: every value as the server writes it, or `null`. */
export type Rows = readonly (readonly (string | null)[])[];

/** A statement or a connection failed. Without `sqlstate` the outcome of a statement is unknown. */
export class DatabaseError extends Error {
  readonly sqlstate: string | undefined;

  constructor(message: string, sqlstate?: string, cause?: unknown) {
    super(escapeControls(message.slice(0, 2000)), { cause }); // a server may send anything
    this.name = "DatabaseError";
    this.sqlstate = sqlstate;
  }

  /** Whether a row is at fault, so that the other rows of its statement may be sent without it. */
  get isOfRow(): boolean {
    return /^(2[123]|55P03)/.test(this.sqlstate ?? "");
  }
}

/**
 * The settings of every session, as `pg_settings` writes them; they outrank all others. `pg_temp` comes last, or
 * temporary tables would come first (CVE-2018-1058). The level of commits is set after the login (schema).
 */
export const SESSION = [
  "search_path=pg_catalog, pg_temp",
  "client_min_messages=warning", // else a cancelled wait for the standby would not be reported
  "lock_timeout=1000",
  "statement_timeout=0",
  "default_transaction_isolation=read committed",
  "row_security=off", // an error in place of rows that are missing
];
const OPTIONS = SESSION.map((setting) => `-c ${setting.replaceAll(" ", "\\ ")}`).join(" ");

/** They warn for weeks that transaction numbers run out, with the SQLSTATE of a commit without its standby. */
const HARMLESS_ROUTINES = /^GetNew(TransactionId|MultiXactId)$/;

export class Connection {
  readonly host: DatabaseHost;
  isOpen = true;
  /** When the statement under way was sent, by the monotonic clock. */
  busySince: number | undefined;
  /** What its server says, once it is known: its process there, the timeline, and the row of `CHECK`. */
  pid = "";
  timeline = 0;
  startedAt = "";
  row: Rows[number] = [];
  readonly #client: InstanceType<PgModule["Client"]>;
  readonly #socket = new net.Socket();
  /** What the server has warned of, about the commit of the statement under way. */
  #unconfirmedCommit: string | undefined;

  /** @throws TypeError if the driver does not use the socket: libpq does not report a cancelled wait. */
  constructor(pg: PgModule, url: DatabaseUrl, host: DatabaseHost) {
    this.host = host;
    const { user, database, password, sslmode, ca } = url;
    const isPlain = sslmode === "disable" || host.host.startsWith("/");
    const checkServerIdentity = sslmode === "verify-ca" ? () => undefined : tls.checkServerIdentity;
    const client = new pg.Client({
      ...host,
      user,
      database,
      password: () => password ?? "", // the driver would look for one elsewhere
      ssl: isPlain ? false : { ca, checkServerIdentity },
      sslnegotiation: "postgres",
      options: OPTIONS,
      application_name: "plant-store",
      types: { getTypeParser: () => String }, // the driver's own belong to the whole process
      stream: () => this.#socket,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    if (client.connection?.stream !== this.#socket) {
      const got = "one that ignores the option `stream`, as pg.native does";
      throw new TypeError(`pg: expected the driver in JavaScript, got ${got}`);
    }
    client.binary = false;
    client.on("error", () => this.close());
    client.on("notice", ({ code = "", routine = "", message = "" }) => {
      // The text is translated.
      const isWarning = code === "01000" && !HARMLESS_ROUTINES.test(routine);
      if (isWarning || code.startsWith("57P")) this.#unconfirmedCommit = message;
    });
    this.#socket.once("close", () => this.close());
    this.#client = client;
  }

  /** Connects and logs in; without a limit on the time. @throws DatabaseError */
  login(): Promise<void> {
    return this.#explain(this.#client.connect());
  }

  /** Runs one statement; one at a time. @throws DatabaseError */
  async query(text: string, values: Rows[number] = []): Promise<Rows> {
    this.#unconfirmedCommit = undefined;
    this.busySince = clock.monotonicMs();
    const result = this.#client.query({ text, values, rowMode: "array" });
    const { rows } = await this.#explain<{ rows: Rows[number][] }>(result);
    // The driver makes its array with the statement. When the rows come, V8 may count it as old, and
    // would keep it, and all of them, until a full collection.
    if (this.#unconfirmedCommit === undefined) return rows.splice(0);
    throw new DatabaseError(`The outcome is unknown: ${this.#unconfirmedCommit}`);
  }

  async #explain<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (cause) {
      const { code, message, severity } = cause as { severity?: string } & NodeJS.ErrnoException;
      // Errors of the operating system have a code too, but no severity.
      throw new DatabaseError(`"${formatHost(this.host)}": ${message}`, severity && code, cause);
    } finally {
      this.busySince = undefined;
    }
  }

  /** Closes the socket; a statement under way is rejected, its outcome unknown. */
  close(reason?: Error): void {
    this.isOpen = false;
    this.#socket.destroy(reason);
  }
}

/** The outcome of work, or an error at the deadline; the work itself goes on. */
export function withTimeout<T>(limitMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new DatabaseError(`The database did not respond in ${limitMs} ms`));
    const timer = clock.setTimeout(late, limitMs);
    work.then(resolve, reject).then(() => clock.clearTimeout(timer));
  });
}
