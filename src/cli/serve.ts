/**
 * `plant-store serve`: the store served over HTTP until a signal ends it.
 *
 * It prints one line on standard output when it is ready, and its log on standard error. SIGTERM or
 * SIGINT drains, or gives up the opening of the store, and the status is 0; a second one ends the
 * process at once. A store that failed for good, also in the drain, exits 1, so that a supervisor
 * starts it again from what is on disk. The admin listener starts first and ends last.
 *
 * Root reads the certificate and binds the port before it becomes the owner of the data directory.
 */
import cluster from "node:cluster";
import { statfs } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import {
  AdminServer,
  createFirstToken,
  isLive,
  listTokens,
  PlantServer,
  PlantStore,
  PlantStoreError,
  type ServerOptions,
  type ServiceState,
  type StartProgress,
  type Status,
  type StoreStatus,
  type TlsOptions,
  TokenRegistry,
  type TokenStatus,
} from "../index.ts";
import { defineCommand, type ExitStatus, VERSION } from "./command.ts";
import { enterFolder } from "./data-folder.ts";
import { bindAsRoot, describeListenError, readTlsFiles, rereadTlsFiles } from "./endpoint.ts";
import { startLog } from "./log.ts";
import { announce, count, describeShare, printLines, report, withProgress } from "./output.ts";
import {
  checkMatch,
  describeConfig,
  numbersOf,
  SERVE_OPTIONS,
  type ServeOptions,
} from "./serve-options.ts";
import { onReloadSignal, stopSignal, takeHeldSocket } from "./supervisor.ts";

export const serve = defineCommand({
  name: "serve",
  summary: "serve POST /plants until SIGTERM or SIGINT",
  arguments: [],
  options: SERVE_OPTIONS,
  entersFolder: true,
  async run(_, options, sources) {
    checkMatch(options);
    if (options["print-config"] === true) {
      await printLines(describeConfig(sources));
      return 0;
    }
    startLog({ format: options.log, level: options["log-level"] });
    const stop = stopSignal();
    const fd = takeHeldSocket();
    const tls = readTlsFiles(options);
    const bound = fd === undefined ? await bindAsRoot(options) : undefined;
    const data = enterFolder(options.data);
    const status = new ServeStatus(data);
    const admin = startAdmin(options, status);
    admin.catch(() => {}); // awaited once the store is open: a second server has to name the first
    try {
      return await serveStore({ ...options, data }, { fd, bound, tls }, { status, admin, stop });
    } catch (error) {
      if (error !== stop.reason) throw error;
      report({ level: "info", event: "stopped", message: "stopped before it was ready" });
      return 0;
    } finally {
      await (await admin.catch(() => undefined))?.close();
    }
  },
});

/** What a server listens on, as it was opened before the data directory was entered. */
interface Endpoint {
  readonly fd: number | undefined;
  readonly bound: object | undefined;
  readonly tls: TlsOptions | undefined;
}

/** What a server goes by while it starts and runs. */
interface Life {
  readonly status: ServeStatus;
  readonly admin: Promise<AdminServer | undefined>;
  readonly stop: AbortSignal;
}

async function serveStore(
  options: ServeOptions,
  { fd, bound, tls: firstTls }: Endpoint,
  { status, admin, stop }: Life,
): Promise<ExitStatus> {
  let server: PlantServer | undefined;
  // From the beginning: a request to reload must not end a server that is not ready.
  onReloadSignal(firstTls && (() => reloadCertificate(server, options)));
  const store = await openStore(options, status, stop);
  let tokens: TokenRegistry | undefined;
  let exitStatus: ExitStatus = 0;
  try {
    const adminUrl = (await admin)?.url;
    tokens = await TokenRegistry.open(options.data);
    stop.throwIfAborted(); // from here on, and from the first request on, a signal drains
    const stopped = new Promise((resolve) => stop.addEventListener("abort", resolve));
    const tls = rereadTlsFiles(options, firstTls);
    server = await startServer({ plants: store, tokens, ...given({ fd, bound, tls }) }, options);
    status.ready(store, tokens);
    const welcome = options["first-token"] ? await introduce(server.url, options, tokens) : [];
    // In one piece: a program that waits for the ready line finds the token beside it.
    announce([`plant-store listening on ${server.url}`, ...welcome]);
    reportListening(server.url, adminUrl, store.size);
    // Until the store is closed: a sync of the drain may fail, too.
    const failed = store.failed.then(({ cause, message }) => {
      exitStatus = 1;
      status.end("failed");
      const why = cause instanceof Error ? cause.message : message;
      report({ level: "error", event: "failed", message: `the store has stopped: ${why}` });
    });
    await Promise.race([stopped, failed]);
    if (exitStatus === 0) {
      status.end("draining");
      const message = "draining: what is in flight is answered, nothing more is taken";
      report({ level: "info", event: "draining", message });
    }
  } finally {
    await server?.close(options["drain-timeout-ms"]);
    tokens?.close();
    await store.close();
    if (server !== undefined) report({ level: "info", event: "stopped", message: "stopped" });
  }
  return exitStatus;
}

/**
 * `pm2 reload` starts a worker of node:cluster before it stops the one that it replaces, 3 s later
 * by default, and gives up a worker that ends sixteen times at once: a worker waits for the folder.
 */
const WORKER_WAIT_MS = 6000;
const WORKER_RETRY_MS = 250;

/** @throws the reason of the stop, if that comes meanwhile. */
async function openStore(
  options: ServeOptions,
  status: ServeStatus,
  stop: AbortSignal,
): Promise<PlantStore> {
  const open = () =>
    withProgress("reading the log", (show) =>
      PlantStore.open(options.data, {
        command: "serve",
        onProgress: (bytes, total) => {
          stop.throwIfAborted();
          status.reading(bytes, total);
          show(bytes, total);
        },
        batchBytesMax: options["batch-bytes-max"],
        queueBytesMax: options["pending-bytes-max"],
      }),
    );
  const deadline = performance.now() + (cluster.isWorker ? WORKER_WAIT_MS : 0);
  for (let tries = 0; ; tries++) {
    try {
      return await open();
    } catch (error) {
      const isLocked = error instanceof PlantStoreError && error.code === "locked";
      if (!isLocked || performance.now() >= deadline) throw error;
      if (tries === 0)
        publishWarning(`waiting ${WORKER_WAIT_MS / 1000} s at most: ${error.message}`);
      await sleep(WORKER_RETRY_MS);
      stop.throwIfAborted();
    }
  }
}

async function startAdmin(
  { admin: address }: ServeOptions,
  status: ServeStatus,
): Promise<AdminServer | undefined> {
  if (address === undefined) return undefined;
  try {
    return await AdminServer.start({ address, status, version: VERSION });
  } catch (error) {
    throw describeListenError(error, "--admin", address);
  }
}

async function startServer(parts: ServerOptions, options: ServeOptions): Promise<PlantServer> {
  const { host, port, "base-path": basePath, "cors-origin": corsOrigins } = options;
  try {
    const named = given<Partial<ServerOptions>>({ basePath, corsOrigins });
    return await PlantServer.start({ ...parts, host, ...numbersOf(options), ...named });
  } catch (error) {
    const address = parts.fd === undefined ? { host, port } : undefined;
    throw describeListenError(error, "--port", address);
  }
}

/** Without the members that are undefined, as exact optional properties want it. */
function given<T extends object>(values: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T;
}

/** Connections that are open live on; a bad new pair leaves everything as it is. */
function reloadCertificate(server: PlantServer | undefined, options: ServeOptions): void {
  if (server === undefined) return; // it reads the files when it starts
  try {
    const tls = readTlsFiles(options);
    if (tls !== undefined) server.replaceCertificate(tls);
    report({ level: "info", event: "reloaded", message: "read the certificate again" });
  } catch (error) {
    publishWarning(`keeping the certificate there is: ${(error as Error).message}`);
  }
}

function reportListening(url: string, admin: string | undefined, plants: number): void {
  const status = admin === undefined ? "" : `; status at ${admin}`;
  const message = `listening on ${url}, ${count(plants, "plant")} stored${status}`;
  const fields = { url, admin, plants, version: VERSION, pid: process.pid };
  report({ level: "info", event: "listening", message, fields });
}

/**
 * What a newcomer needs next: a token, made only once the server listens, and how to use it. The
 * lines hold the token, so they are for standard output: a log is no place for one.
 */
async function introduce(
  url: string,
  { data }: ServeOptions,
  tokens: TokenRegistry,
): Promise<string[]> {
  const token = await createFirstToken(data, { name: "first-token" });
  await tokens.refresh();
  if (token === undefined) {
    const now = Date.now();
    const live = (await listTokens(data)).filter((record) => isLive(record, now)).length;
    const verb = live === 1 ? "exists" : "exist";
    return [`${count(live, "token")} ${verb}; "plant-store token create NAME" makes another`];
  }
  const command =
    `curl -X POST ${quoteForShell(`${url}/plants`)} -H 'Authorization: Bearer ${token}' ` +
    `-H 'Content-Type: application/json' ` +
    `-d '{"id":1,"name":"Monstera deliciosa","tag":"tropical"}'`;
  return ["created a token, shown only now; create a plant with it:", "", `  ${command}`, ""];
}

/** A base path may hold what a shell would take for itself. */
function quoteForShell(text: string): string {
  return /^[A-Za-z0-9:/._~-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A start that reads the log for longer than this logs how far it is. */
const LONG_START_MS = 2000;

/** What the admin listener shows of a server. */
export class ServeStatus implements Status {
  readonly #data: string;
  #state: ServiceState = "starting";
  #progress: StartProgress | undefined;
  /** When the first bytes of the log were read. */
  #readingSince: number | undefined;
  #hasReported = false;
  #store: PlantStore | undefined;
  #tokens: TokenRegistry | undefined;

  /** @param data the data directory, which need not be there yet. */
  constructor(data: string) {
    this.#data = data;
  }

  /** So much of the log is read. A long start logs that, once. */
  reading(bytes: number, total: number): void {
    this.#progress = { bytes, total };
    this.#readingSince ??= performance.now();
    if (this.#hasReported || performance.now() - this.#readingSince < LONG_START_MS) return;
    this.#hasReported = true;
    const message = `reading the log: ${describeShare(bytes, total)} so far`;
    report({ level: "info", event: "starting", message, fields: { bytes, total } });
  }

  /** Everything is open, and the service listens. */
  ready(store: PlantStore, tokens: TokenRegistry): void {
    this.#store = store;
    this.#tokens = tokens;
    this.#state = "ready";
  }

  end(state: "draining" | "failed"): void {
    this.#state = state;
  }

  state(): ServiceState {
    const isRefusing = this.#state === "ready" && this.#tokens?.isReadable === false;
    return isRefusing ? "tokens-unreadable" : this.#state;
  }

  progress(): StartProgress | undefined {
    return this.#progress;
  }

  store(): StoreStatus | undefined {
    return this.#store?.status();
  }

  tokens(): readonly TokenStatus[] {
    return this.#tokens?.list() ?? [];
  }

  async freeBytes(): Promise<number | undefined> {
    const disk = await statfs(this.#data).catch(() => undefined);
    return disk && disk.bavail * disk.bsize;
  }
}
