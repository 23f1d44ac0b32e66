/**
 * The plant store as a library. Importing it has no effect: no global, timer, signal handler or
 * output. These exports keep their meaning within a major version.
 */
/// <reference types="node" preserve="true" />
export {
  createFirstToken,
  createToken,
  importTokens,
  listTokens,
  revokeToken,
} from "./auth/token-file.ts";
export { TokenRegistry } from "./auth/token-registry.ts";
export {
  type BatchMessage,
  type ChannelMessages,
  type RequestMessage,
  subscribe,
  type WarningMessage,
} from "./core/channels.ts";
export { type ErrorCode, PlantStoreError } from "./core/errors.ts";
export type { LiveTokens } from "./core/live-tokens.ts";
export { NUMBER_OPTIONS } from "./core/options.ts";
export { encodeNewPlant, type NewPlant, type Plant } from "./core/plant.ts";
export type {
  CreateOutcome,
  ListOptions,
  PlantService,
  Scope,
  StoreStatus,
  TokenStatus,
  TokenVerifier,
  TrustedProxies,
  Verdict,
  VerifiedToken,
} from "./core/services.ts";
export { isLive, type NewToken, type TokenRecord } from "./core/token.ts";
export { createRequestListener, type ListenerOptions } from "./http/listener.ts";
export { OPENAPI } from "./http/openapi.ts";
export { PlantServer, type ServerOptions, type TlsOptions } from "./http/server.ts";
export {
  type BackupIntoReport,
  type BackupReport,
  backup,
  backupInto,
  restore,
} from "./store/backup.ts";
export { exportLines, type ImportReport, importPlants } from "./store/import-export.ts";
export { PlantStore, type PlantStoreOptions } from "./store/plant-store.ts";
export {
  type RepairReport,
  repairLog,
  type VerifyReport,
  verifyLog,
} from "./store/verify-repair.ts";
