/**
 * Plants and tokens in PostgreSQL, for the same listener as the file store: `plant-store/postgres`.
 * The driver is the program's own (`npm install pg`). Importing this does nothing.
 */
/// <reference types="node" preserve="true" />
import { PlantStoreError } from "../core/errors.ts";
import { assertNumbers, NUMBER_OPTIONS } from "../core/options.ts";
import type { DatabaseStatus } from "../core/services.ts";
import { type PgModule, withTimeout } from "./connection.ts";
import { Database } from "./database.ts";
import { UnusableDatabaseError } from "./hosts.ts";
import { PostgresPlants } from "./plants.ts";
import { PostgresTokens, TokenTable } from "./tokens.ts";

export type { NewToken, TokenRecord } from "../core/token.ts";
export type { PgModule } from "./connection.ts";
export type { PostgresPlants } from "./plants.ts";
export { printSchema } from "./schema.ts";
export type { PostgresTokens, TokenTable } from "./tokens.ts";

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

/** An open database: its plants, the check of its tokens, and changes of them. */
export interface PostgresStore {
  readonly plants: PostgresPlants;
  readonly tokens: PostgresTokens;
  readonly tokenTable: TokenTable;
  /** For the operator. */
  state(): DatabaseStatus;
  /** Accepts no more calls, waits for creates in progress, at most until their deadline, and logs out. */
  close(): Promise<void>;
}

/**
 * Finds the primary, has it commit, and follows the tokens.
 *
 * @throws PlantStoreError `io_error` if no primary commits within the deadline, or the login is refused;
 * `corruption` if plants must not be stored in the database. The message says how to fix it.
 * @throws TypeError or RangeError for a wrong option.
 */
export async function openPostgres(options: PostgresOptions): Promise<PostgresStore> {
  assertNumbers(options);
  const { pg, url, requireSync = false, isPatient = false, followsTokens = true } = options;
  const deadlineMs = options.databaseDeadlineMs ?? NUMBER_OPTIONS.databaseDeadlineMs.default;
  const connections = options.databaseConnections ?? NUMBER_OPTIONS.databaseConnections.default;
  const readUrl = typeof url === "function" ? url : () => url;
  const database = new Database({ pg, url: readUrl, requireSync, deadlineMs });
  const tokens = new PostgresTokens(database);
  const plants = new PostgresPlants(database, connections);
  const close = async () => {
    tokens.close();
    await plants.close();
    database.hosts.isClosed = true;
    database.hosts.closeAll();
  };
  try {
    const connecting = () => database.reads.run(async () => {}, deadlineMs);
    const start = followsTokens ? tokens.start(isPatient) : connecting();
    await (isPatient ? start : withTimeout(deadlineMs, start));
  } catch (error) {
    await close();
    const isUnusable = error instanceof UnusableDatabaseError;
    const cause = isUnusable ? error : ((database.hosts.lastError ?? error) as Error);
    const code = isUnusable ? "corruption" : "io_error";
    throw new PlantStoreError(code, cause.message, { cause });
  }
  const state = () => {
    const { hosts, isSynchronous, leaseAge } = database;
    return { host: hosts.inUse, isSynchronous, leaseAgeMs: leaseAge() };
  };
  return { plants, tokens, tokenTable: new TokenTable(database), state, close };
}
