/**
 * One connection to a database, through the driver that the caller hands in.
 *
 * Invariants. `query` resolves only after the commit: the server has reported that it is ready for
 * the next statement. A warning that the commit may not have reached the standby makes the outcome
 * unknown. Values are text, whatever parsers the process has installed in the driver. Nothing is
 * ever cancelled: the server reports a cancelled wait for the standby as success.
 */
import net from "node:net";
import tls from "node:tls";
import { clock } from "../clock.ts";
import { escapeControls } from "../core/text.ts";
import {
  type DatabaseHost,
  type DatabaseTarget,
  formatHost,
  isSocketFolder,
  type TlsRule,
} from "./database-url.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: the driver's own types are not needed to use it
/** What the store needs of the package `pg`, version 8.23 or later. */
export interface PgModule {
  /** Makes a `PgClient`; the types of the package (`@types/pg`) do not name every member. */
  readonly Client: { new (config: any): any };
}

/** What the store uses of a `Client` of that package. */
export interface PgClient {
  /** Whether it asks for binary values. */
  binary: boolean;
  /** What it logs in with, and its limits on statements. */
  readonly connectionParameters: object;
  /** Emits the server's messages. */
  readonly connection: { readonly stream: net.Socket };
  connect(): Promise<unknown>;
  query(statement: any): Promise<{ readonly rows: any[]; readonly command: string | null }>;
  end(): Promise<void>;
  on(event: string, listener: (value: any) => void): unknown;
}
// biome-ignore-end lint/suspicious/noExplicitAny: see above

/** The rows of a result: every value as the server writes it, or `null`. @internal */
export type Rows = readonly (readonly (string | null)[])[];

/** A password, or a function that returns it for each new connection, because it may change. */
export type PasswordSource = string | (() => string | undefined | Promise<string | undefined>);

/**
 * The failure of a statement or a connection. Without `sqlstate` the server has reported nothing,
 * so the outcome of a statement is unknown.
 *
 * @internal
 */
export class DatabaseFault extends Error {
  readonly sqlstate: string | undefined;

  constructor(message: string, sqlstate?: string, cause?: unknown) {
    super(escapeControls(message.slice(0, 2000)), { cause }); // a server may send anything
    this.name = "DatabaseFault";
    this.sqlstate = sqlstate;
  }
}

/** What to do after the fault of a statement. @internal */
type NextStep =
  /** Fail: the disk is full, or the statement does not fit the database. */
  | "refuse"
  /** Send the rows in parts: one of them was refused, or another transaction holds it. */
  | "split"
  /** Send it again on the same connection. */
  | "again"
  /** Send it again on a new connection: nothing is known. */
  | "reconnect";

/** @internal */
export function nextStep({ sqlstate = "" }: DatabaseFault): NextStep {
  const kind = sqlstate.slice(0, 2);
  if (sqlstate === "53100" || kind === "42") return "refuse";
  if (sqlstate === "55P03" || kind === "21" || kind === "22" || kind === "23") return "split";
  if (sqlstate === "53300" || (kind === "40" && sqlstate !== "40003")) return "again";
  return "reconnect";
}

/**
 * The functions of the server that warn, with every new transaction for weeks, that transaction
 * numbers run out. Their SQLSTATE is that of a commit that did not reach the standby.
 */
const HARMLESS_ROUTINES = ["GetNewTransactionId", "GetNewMultiXactId"];

/** Keeps every value as text: the driver's own parsers belong to the whole process. */
const TEXT_TYPES = { getTypeParser: () => (text: string) => text };

/** @internal */
export class Connection {
  readonly host: DatabaseHost;
  isOpen = true;
  /** When the statement under way was sent, by the monotonic clock. */
  busySince: number | undefined;
  readonly #client: PgClient;
  readonly #socket: net.Socket;
  /** What the server has warned of, about the commit of the statement under way. */
  #doubt: string | undefined;

  private constructor(client: PgClient, socket: net.Socket, host: DatabaseHost) {
    this.#client = client;
    this.#socket = socket;
    this.host = host;
    client.on("notice", (notice) => {
      if (isDoubt(notice)) this.#doubt = String(notice.message);
    });
    socket.once("close", () => {
      this.isOpen = false;
    });
  }

  /**
   * Connects and logs in.
   *
   * @throws DatabaseFault if that fails or takes longer than `limitMs`.
   */
  static async open(
    pg: PgModule,
    target: DatabaseTarget,
    host: DatabaseHost,
    { password, limitMs }: { password: PasswordSource | undefined; limitMs: number },
  ): Promise<Connection> {
    const { host: name, port } = host;
    const socket = new net.Socket();
    const ssl = tlsOptions(target.tls, host);
    const config = {
      host: name,
      port,
      user: target.user,
      database: target.database,
      password: async () => {
        const given = typeof password === "function" ? password : () => password;
        const found = target.password ?? (await given());
        if (found) return found;
        throw new Error("the server asks for a password, and none is given");
      },
      application_name: "plant-store",
      ssl,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    };
    const client = makeClient(pg, config, socket);
    client.on("error", () => socket.destroy()); // also between two statements
    const late = new Error(`no answer within ${limitMs} ms`);
    const timer = clock.setTimeout(() => socket.destroy(late), limitMs);
    try {
      await client.connect();
      return new Connection(client, socket, host);
    } catch (cause) {
      socket.destroy();
      throw toFault(`Cannot connect to "${formatHost(host)}"`, cause);
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /**
   * Runs one statement as a transaction of its own; one at a time.
   *
   * @throws DatabaseFault
   */
  async query(text: string, values: readonly (string | null)[] = []): Promise<Rows> {
    this.#doubt = undefined;
    this.busySince = clock.monotonicMs();
    try {
      const statement = { text, values, rowMode: "array", types: TEXT_TYPES };
      const { rows, command } = await this.#client.query(statement);
      if (command === null) throw new DatabaseFault("The server sent no result of a statement");
      const doubt = this.#doubt as string | undefined;
      // The driver makes its array with the statement. When the rows come, V8 may count it as old, and
      // would keep it, and all of them, until a full collection.
      if (doubt === undefined) return rows.splice(0);
      throw new DatabaseFault(`The outcome is unknown: ${doubt}`);
    } catch (cause) {
      if (cause instanceof DatabaseFault) throw cause;
      throw toFault(`A statement failed on "${formatHost(this.host)}"`, cause);
    } finally {
      this.busySince = undefined;
    }
  }

  /** Closes the socket; a statement under way is rejected, its outcome unknown. */
  destroy(): void {
    this.isOpen = false;
    this.#socket.destroy();
  }

  /** Logs out, within a second. A statement under way is rejected. */
  async close(): Promise<void> {
    this.isOpen = false;
    const timer = clock.setTimeout(() => this.#socket.destroy(), 1000);
    await this.#client.end().catch(() => {});
    clock.clearTimeout(timer);
    this.#socket.destroy();
  }
}

/**
 * A client with nothing of `pg.defaults` and of the environment, except a user or a database that is
 * not given. A limit on statements would give one up that waits for the standby.
 *
 * @throws TypeError if the driver does not use the socket: libpq does not report a cancelled wait.
 * @internal
 */
export function makeClient(
  pg: PgModule,
  config: Readonly<Record<string, unknown>> = {},
  socket = new net.Socket(),
): PgClient {
  const client = new pg.Client({ ...config, stream: () => socket, sslnegotiation: "postgres" });
  if (client.connection?.stream !== socket) throw new TypeError(WRONG_DRIVER);
  client.binary = false;
  Object.assign(client.connectionParameters, {
    options: undefined,
    replication: undefined,
    statement_timeout: 0,
    lock_timeout: 0,
    idle_in_transaction_session_timeout: 0,
    query_timeout: 0,
  });
  return client;
}

const WRONG_DRIVER =
  'pg: expected the driver in JavaScript (import pg from "pg"), got one that ignores the option `stream`, ' +
  "as pg.native does, and pg with the variable NODE_PG_FORCE_NATIVE";

/**
 * Whether a notice may report that a commit did not reach the standby. Its text is translated.
 *
 * @param routine the function of the server that sends it.
 */
function isDoubt({ code = "", routine = "" }: { code?: string; routine?: string }): boolean {
  if (code === "01000") return !HARMLESS_ROUTINES.includes(routine);
  return code.startsWith("57P");
}

function toFault(what: string, cause: unknown): DatabaseFault {
  const { code, message, severity } = cause as { severity?: string } & NodeJS.ErrnoException;
  // Errors of the operating system have a code too, but no severity.
  return new DatabaseFault(`${what}: ${message}`, severity === undefined ? undefined : code, cause);
}

function tlsOptions({ mode, ca }: TlsRule, { host }: DatabaseHost): tls.ConnectionOptions | false {
  if (mode === "disable" || isSocketFolder(host)) return false;
  return {
    ca,
    ...(net.isIP(host) === 0 && { servername: host }),
    checkServerIdentity: (_, certificate) =>
      mode === "verify-ca" ? undefined : tls.checkServerIdentity(host, certificate),
  };
}
