/**
 * The plant store as a library: everything the command line does, for
 * programs. Importing it does nothing: no global, no timer, no signal handler.
 */
export {
  createFirstToken,
  createToken,
  listTokens,
  type NewToken,
  revokeToken,
} from "./auth/token-file.ts";
export { isLive, isTokenName, type TokenRecord } from "./auth/token-log.ts";
export { TokenRegistry } from "./auth/token-registry.ts";
export type { WarningMessage } from "./core/channels.ts";
export {
  type DataErrorCode,
  type ErrorCode,
  PlantStoreError,
  type RequestErrorCode,
} from "./core/errors.ts";
export { parseInt64 } from "./core/int64.ts";
export { encodeNewPlant, type NewPlant, type Plant } from "./core/plant.ts";
export {
  type CreateOutcome,
  type PlantService,
  SCOPES,
  type Scope,
  type TokenVerifier,
  type VerifiedToken,
} from "./core/services.ts";
export { createRequestListener, type ListenerOptions } from "./http/listener.ts";
export { PlantServer, type ServerOptions } from "./http/server.ts";
export { readPlants } from "./store/plant-reader.ts";
export { PlantStore, type PlantStoreOptions } from "./store/plant-store.ts";
