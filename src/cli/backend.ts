/** Where a server keeps plants and tokens: in a data directory, or in a database. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import path from "node:path";
import type { ServiceState, Status } from "../admin/status.ts";
import { publishWarning } from "../core/channels.ts";
import type {
  DatabaseStatus,
  PlantService,
  StoreStatus,
  TokenStatus,
  TokenVerifier,
} from "../core/services.ts";
import { isLive } from "../core/token.ts";
import { createFirstToken, PlantStore, TokenRegistry } from "../index.ts";
import { type DatabaseChoice, isDatabase, openDatabase } from "./database.ts";
import { printMessage, withProgress } from "./output.ts";

/** The options of `serve` that name and bound the store. */
interface BackendOptions extends DatabaseChoice {
  readonly data: string;
  readonly databaseDeadlineMs: number;
  readonly databaseConnections: number;
}

/** The store and the tokens of a server; `close` finishes the creates in flight. */
export interface Backend {
  readonly plants: PlantService & { status(): StoreStatus };
  readonly tokens: TokenVerifier & { list(): readonly TokenStatus[] };
  /** Resolves with the reason if the store fails for good. */
  readonly failed: Promise<Error>;
  /** Whether requests can be carried out. */
  state(): ServiceState;
  database?(): DatabaseStatus;
  /** Returns a new token, which this server accepts; `undefined` if a token is live already. */
  createFirstToken(): Promise<string | undefined>;
  close(): Promise<void>;
}

const FIRST_TOKEN = { name: "first-token", scopes: ["write", "read"] } as const;

/**
 * @param stop aborts the opening.
 * @param onProgress receives how many bytes of a log were read, and how many there are.
 * @throws the reason of `stop`; UsageError or PlantStoreError if the store cannot be opened.
 */
export function openBackend(
  options: BackendOptions,
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<Backend> {
  return isDatabase(options)
    ? orStop(stop, openDatabaseBackend(options))
    : openFolderBackend(options, stop, onProgress);
}

/** A start over a database may be left alone: the process ends, and with it the connections. */
function orStop<T>(stop: AbortSignal, start: Promise<T>): Promise<T> {
  stop.throwIfAborted();
  const stopped = once(stop, "abort").then(() => Promise.reject(stop.reason));
  return Promise.race([start, stopped]);
}

async function openDatabaseBackend(options: BackendOptions): Promise<Backend> {
  const { databaseDeadlineMs, databaseConnections } = options;
  const details = { databaseDeadlineMs, databaseConnections, isPatient: true };
  const store = await openDatabase(options, details);
  const { plants, tokens, tokenTable } = store;
  return {
    plants,
    tokens,
    failed: new Promise(() => {}), // never: the store waits for a database that is away
    // Ready until a deadline: a failover must not take every server out of a load balancer.
    state: () => (tokens.leaseAgeMs < databaseDeadlineMs ? "ready" : "database-away"),
    database: () => store.state(),
    createFirstToken: async () => {
      const now = Date.now();
      if ((await tokenTable.list()).some((token) => isLive(token, now))) return undefined;
      const token = await tokenTable.create(FIRST_TOKEN);
      await tokens.refresh();
      return token;
    },
    close: () => store.close(),
  };
}

async function openFolderBackend(
  options: BackendOptions,
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<Backend> {
  const { data } = options;
  const isNew = !existsSync(data);
  const store = await openStore(options, stop, onProgress);
  if (isNew)
    printMessage(`made the folder "${path.resolve(data)}" for the plants; --data names another`);
  await warnOfFileSystem(data);
  const tokens = await TokenRegistry.open(data).catch(async (error) => {
    await store.close();
    throw error;
  });
  return {
    plants: store,
    tokens,
    failed: store.failed,
    state: () => (tokens.isReadable ? "ready" : "tokens-unreadable"),
    createFirstToken: async () => {
      const token = await createFirstToken(data, FIRST_TOKEN);
      if (token !== undefined) await tokens.refresh();
      return token;
    },
    close: async () => {
      tokens.close();
      await store.close();
    },
  };
}

const SHARED =
  "where two processes may write at once, and a power cut may lose acknowledged plants";
/** File systems on which less is guaranteed, by their numbers (statfs(2)). */
const FILE_SYSTEMS = new Map([
  [0x6969, `NFS, ${SHARED}`],
  [0xff534d42, `CIFS, ${SHARED}`],
  [0xfe534d42, `CIFS, ${SHARED}`],
  [0x01021997, `9p, ${SHARED}`],
  [0x65735546, `FUSE, ${SHARED}`],
  [0x01021994, "tmpfs, which is lost when the machine restarts"],
  [0x794c7630, "overlayfs, which is lost with its container"],
]);

async function warnOfFileSystem(data: string): Promise<void> {
  const kind = FILE_SYSTEMS.get((await statfs(data).catch(() => undefined))?.type ?? 0);
  if (kind === undefined) return;
  publishWarning(`"${data}" is on ${kind}; use a volume or a disk with ext4 or XFS`);
}

/** The disk of a folder; `undefined` if it does not say. */
export async function readDisk(folder: string): Promise<Status["disk"]> {
  const disk = await statfs(folder).catch(() => undefined);
  if (!disk?.blocks) return undefined;
  return { freeBytes: disk.bavail * disk.bsize, totalBytes: disk.blocks * disk.bsize };
}

/** @throws the reason of `stop`. */
function openStore(
  { data }: BackendOptions,
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<PlantStore> {
  return withProgress("reading the log", (show) =>
    PlantStore.open(data, {
      command: "serve",
      onProgress: (bytes, total) => {
        stop.throwIfAborted();
        onProgress(bytes, total);
        show(bytes, total);
      },
    }),
  );
}
