/**
 * Plants and tokens in PostgreSQL, for the same listener as the file store: `plant-store/postgres`.
 * The driver is the program's own (`npm install pg`). Importing this does nothing.
 */

/// <reference types="node" preserve="true" />
export type { NewToken, TokenRecord } from "../core/token.ts";
export type { PasswordSource, PgClient, PgModule } from "./connection.ts";
export type { DatabaseOptions } from "./database.ts";
export { PostgresPlants, type PostgresPlantsOptions } from "./postgres-plants.ts";
export { PostgresTokens } from "./postgres-tokens.ts";
export { printSchema } from "./schema.ts";
export {
  createFirstToken,
  createToken,
  importTokens,
  listTokens,
  revokeToken,
} from "./token-table.ts";
