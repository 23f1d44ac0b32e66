/** Where a server keeps plants and tokens: in a data directory, or in a database. */
import cluster from "node:cluster";
import { statfs } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import type {
  DatabaseStatus,
  PlantService,
  ServiceState,
  StoreStatus,
  TokenStatus,
  TokenVerifier,
} from "../core/services.ts";
import { createFirstToken, PlantStore, PlantStoreError, TokenRegistry } from "../index.ts";
import type { Setting } from "./command.ts";
import { isDatabase, openDatabase } from "./database.ts";
import { withProgress } from "./output.ts";
import type { ServeOptions } from "./serve-options.ts";

/** What a server needs of the place; `close` finishes what is in flight. */
export interface Backend {
  readonly plants: PlantService & { status(): StoreStatus };
  readonly tokens: TokenVerifier & { list(): readonly TokenStatus[]; refresh(): Promise<void> };
  /** Settles with the reason if the store stops for good. */
  readonly failed: Promise<Error>;
  /** Whether requests can be carried out. */
  state(): ServiceState;
  database?(): DatabaseStatus;
  /** Creates a token if there is no live one; `undefined` otherwise. */
  createFirstToken(): Promise<string | undefined>;
  close(): Promise<void>;
}

const FIRST_TOKEN = { name: "first-token", scopes: ["write", "read"] } as const;

/**
 * @param stop ends this early.
 * @param onProgress receives how much of a log is read.
 * @throws the reason of `stop`; UsageError or PlantStoreError if the place cannot be used.
 */
export function openBackend(
  options: ServeOptions,
  settings: readonly Setting[],
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<Backend> {
  return isDatabase(options)
    ? openDatabaseBackend(options, settings, stop)
    : openFolderBackend(options, stop, onProgress);
}

async function openDatabaseBackend(
  options: ServeOptions,
  settings: readonly Setting[],
  signal: AbortSignal,
): Promise<Backend> {
  const { databaseDeadlineMs, databaseConnections, pendingBytesMax: queueBytesMax } = options;
  const details = { databaseDeadlineMs, databaseConnections, queueBytesMax, signal };
  const { plants, postgres } = await openDatabase(options, settings, details);
  const tokens = await postgres.PostgresTokens.open(plants, { signal }).catch(async (error) => {
    await plants.close();
    throw error;
  });
  return {
    plants,
    tokens,
    failed: new Promise(() => {}), // a database that is away is waited for
    // Not at once: a failover must not take every server out of a load balancer.
    state: () => (tokens.leaseAgeMs < plants.deadlineMs ? "ready" : "database-away"),
    database: () => ({ ...plants.state(), leaseAgeMs: tokens.leaseAgeMs }),
    createFirstToken: () => postgres.createFirstToken(plants, FIRST_TOKEN),
    close: async () => {
      tokens.close();
      await plants.close();
    },
  };
}

async function openFolderBackend(
  options: ServeOptions,
  stop: AbortSignal,
  onProgress: (bytes: number, total: number) => void,
): Promise<Backend> {
  const { data } = options;
  const store = await openStore(options, stop, onProgress);
  const tokens = await TokenRegistry.open(data).catch(async (error) => {
    await store.close();
    throw error;
  });
  return {
    plants: store,
    tokens,
    failed: store.failed,
    state: () => (tokens.isReadable ? "ready" : "tokens-unreadable"),
    createFirstToken: () => createFirstToken(data, FIRST_TOKEN),
    close: async () => {
      tokens.close();
      await store.close();
    },
  };
}

/** Room on the disk of a folder; `undefined` if it cannot be read. */
export async function readFreeBytes(folder: string): Promise<number | undefined> {
  const disk = await statfs(folder).catch(() => undefined);
  return disk && disk.bavail * disk.bsize;
}

/**
 * `pm2 reload` starts a worker of node:cluster before it stops the worker that it replaces, by
 * default 3 s later, and gives up a worker that ends sixteen times at once. So a worker waits for
 * the data directory.
 */
const WORKER_WAIT_MS = 6000;
const WORKER_RETRY_MS = 250;

/** @throws the reason of `stop`. */
async function openStore(
  options: ServeOptions,
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
        batchBytesMax: options.batchBytesMax,
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
