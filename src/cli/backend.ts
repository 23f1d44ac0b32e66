/** Where a server keeps plants and tokens: in a data directory, or in a database. */
import cluster from "node:cluster";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import type {
  DatabaseStatus,
  DiskStatus,
  PlantService,
  ServiceState,
  StoreStatus,
  TokenStatus,
  TokenVerifier,
} from "../core/services.ts";
import { createFirstToken, PlantStore, PlantStoreError, TokenRegistry } from "../index.ts";
import type { Setting } from "./command.ts";
import { type DatabaseChoice, isDatabase, openDatabase } from "./database.ts";
import { printMessage, withProgress } from "./output.ts";

/** The options of `serve` that name and bound the store. */
interface BackendOptions extends DatabaseChoice {
  readonly data: string;
  readonly databaseDeadlineMs: number;
  readonly databaseConnections: number;
  readonly pendingBytesMax: number | undefined;
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
  settings: readonly Setting[],
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<Backend> {
  return isDatabase(options)
    ? orStop(stop, openDatabaseBackend(options, settings))
    : openFolderBackend(options, stop, onProgress);
}

/** A start over a database may be left alone: the process ends, and with it the connections. */
function orStop<T>(stop: AbortSignal, start: Promise<T>): Promise<T> {
  stop.throwIfAborted();
  const stopped = once(stop, "abort").then(() => Promise.reject(stop.reason));
  return Promise.race([start, stopped]);
}

async function openDatabaseBackend(
  options: BackendOptions,
  settings: readonly Setting[],
): Promise<Backend> {
  const { databaseDeadlineMs, databaseConnections, pendingBytesMax: queueBytesMax } = options;
  const details = { databaseDeadlineMs, databaseConnections, queueBytesMax };
  const { plants, postgres } = await openDatabase(options, settings, details);
  const tokens = await postgres.PostgresTokens.open(plants).catch(async (error) => {
    await plants.close();
    throw error;
  });
  return {
    plants,
    tokens,
    failed: new Promise(() => {}), // never: the store waits for a database that is away
    // Ready until a deadline: a failover must not take every server out of a load balancer.
    state: () =>
      tokens.isReadable || tokens.failingMs < plants.database.deadlineMs
        ? "ready"
        : "database-away",
    database: () => ({ ...plants.state(), leaseAgeMs: tokens.leaseAgeMs }),
    createFirstToken: async () => {
      const token = await postgres.createFirstToken(plants, FIRST_TOKEN);
      if (token !== undefined) await tokens.refresh();
      return token;
    },
    close: async () => {
      tokens.close();
      await plants.close();
    },
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
  await warnOfPlace(data);
  if (isNew)
    printMessage(`made the folder "${path.resolve(data)}" for the plants; --data names another`);
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

/** File systems that lose their files, by their magic numbers (statfs(2)). The store warns of those of a network. */
const FLEETING = new Map([
  [0x01021994, "on tmpfs, which is memory: a restart of the machine loses every plant; use a disk"],
  [
    0x794c7630,
    "on overlayfs, in a layer that is removed with its container, and every plant with it; use a volume",
  ],
]);

/** Warns if the folder, or the machine, lacks what a server relies on. */
async function warnOfPlace(folder: string): Promise<void> {
  const { type = 0 } = (await statfs(folder).catch(() => undefined)) ?? {};
  const place = FLEETING.get(type);
  if (place !== undefined) publishWarning(`"${folder}" is ${place}`);
  if (process.platform !== "linux" || existsSync("/proc/self")) return;
  publishWarning(
    "/proc is not mounted: there are no metrics, and the limit of open files is unknown",
  );
}

/** The disk of a folder; `undefined` if it does not say. */
export async function readDisk(folder: string): Promise<DiskStatus | undefined> {
  const disk = await statfs(folder).catch(() => undefined);
  if (!disk?.blocks) return undefined;
  return { freeBytes: disk.bavail * disk.bsize, totalBytes: disk.blocks * disk.bsize };
}

/**
 * `pm2 reload` starts a new worker of node:cluster, and stops the old one later (by default 3 s).
 * It gives up on a worker that exits at once sixteen times. So a worker waits for the data directory.
 */
const WORKER_WAIT_MS = 6000;
const WORKER_RETRY_MS = 250;

/** @throws the reason of `stop`. */
async function openStore(
  options: BackendOptions,
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<PlantStore> {
  const open = () =>
    withProgress("reading the log", (show) =>
      PlantStore.open(options.data, {
        command: "serve",
        onProgress: (bytes, total) => {
          stop.throwIfAborted();
          onProgress(bytes, total);
          show(bytes, total);
        },
        queueBytesMax: options.pendingBytesMax,
      }),
    );
  const deadline = performance.now() + (cluster.isWorker ? WORKER_WAIT_MS : 0);
  for (let tries = 0; ; tries++) {
    try {
      return await open();
    } catch (error) {
      const isLocked = error instanceof PlantStoreError && error.code === "locked";
      if (!isLocked || performance.now() >= deadline) throw error;
      if (tries === 0) publishWarning(`waiting up to ${WORKER_WAIT_MS / 1000} s: ${error.message}`);
      await sleep(WORKER_RETRY_MS);
      stop.throwIfAborted();
    }
  }
}
