/**
 * Plants and tokens in PostgreSQL, for the same listener as the file store: `plant-store/postgres`.
 * The driver is the program's own (`npm install pg`). Importing this does nothing.
 */
/// <reference types="node" preserve="true" />
import { PlantStoreError } from "../core/errors.ts";
import { assertNumbers, NUMBER_OPTIONS } from "../core/options.ts";
import type { DatabaseStatus } from "../core/services.ts";
import { withTimeout } from "./connection.ts";
import { Database } from "./database.ts";
import { type PostgresOptions, UnusableDatabaseError } from "./hosts.ts";
import { PostgresPlants } from "./plants.ts";
import { PostgresTokens, TokenTable } from "./tokens.ts";

export type { NewToken, TokenRecord } from "../core/token.ts";
export type { PgModule } from "./connection.ts";
export type { PostgresOptions } from "./hosts.ts";
export type { PostgresPlants } from "./plants.ts";
export { printSchema } from "./schema.ts";
export type { PostgresTokens, TokenTable } from "./tokens.ts";

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
  const { isPatient = false, followsTokens = true } = options;
  const connections = options.databaseConnections ?? NUMBER_OPTIONS.databaseConnections.default;
  const database = new Database(options);
  const { hosts, deadlineMs } = database;
  const tokens = new PostgresTokens(database);
  const plants = new PostgresPlants(database, connections);
  const close = async () => {
    tokens.close();
    await plants.close();
    hosts.isClosed = true;
    for (const connection of hosts.connections) connection.close();
  };
  try {
    const start = followsTokens ? tokens.start() : database.reads.run(async () => {});
    await (isPatient ? start : withTimeout(deadlineMs, start));
  } catch (error) {
    await close();
    const isUnusable = error instanceof UnusableDatabaseError;
    const cause = isUnusable ? error : hosts.lastError;
    throw new PlantStoreError(isUnusable ? "corruption" : "io_error", cause.message, { cause });
  }
  const state = () => {
    const { isSynchronous, leaseAge } = database;
    return { host: hosts.inUse, isSynchronous, leaseAgeMs: leaseAge() };
  };
  return { plants, tokens, tokenTable: new TokenTable(database), state, close };
}
