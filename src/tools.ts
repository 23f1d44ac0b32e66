/**
 * Care of a data directory, by its path: `plant-store/tools`. These are the commands `verify`, `repair`,
 * `backup`, `restore`, `import` and `export` as functions. Importing this has no effect. These exports
 * keep their meaning through a major version, and know neither HTTP nor an open store.
 */
/// <reference types="node" preserve="true" />
export { importTokens } from "./auth/token-file.ts";
export type { Checkpoint } from "./log/checkpoint.ts";
export type { LinePosition } from "./log/lines.ts";
export {
  type BackupIntoOptions,
  type BackupReport,
  backup,
  backupInto,
  type NumberedBackupReport,
  restore,
} from "./store/backup.ts";
export {
  exportLines,
  type ImportFile,
  type ImportOptions,
  type ImportReport,
  importPlants,
  openImportFile,
  readPlants,
} from "./store/import-export.ts";
export type { LineFault } from "./store/start.ts";
export {
  isSound,
  type RepairOptions,
  type RepairOutcome,
  type RepairPlan,
  repairLog,
  type VerifyOptions,
  type VerifyReport,
  verifyLog,
} from "./store/verify-repair.ts";
