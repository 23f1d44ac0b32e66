/**
 * `plant-store serve`: the store behind HTTP until a signal ends it.
 *
 * Prints one line on standard output when it is ready, and its log on standard
 * error. SIGTERM or SIGINT drains and exits 0, or gives up the opening of the
 * store and exits 0; a second one ends it at once. A store that failed for good,
 * be it in the drain, exits 1, so that a supervisor starts it again from what is
 * on disk. SIGHUP reads the certificate again. The admin listener is there before
 * everything else, and ends last.
 *
 * Root reads the certificate and binds the port before it becomes the owner of the data directory.
 */
import cluster from "node:cluster";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { publishWarning } from "../../core/channels.ts";
import { PlantStoreError } from "../../core/errors.ts";
import { type AdminAddress, formatAdminAddress, formatHostPort } from "../../core/host-port.ts";
import {
  AdminServer,
  PlantServer,
  PlantStore,
  type ServerOptions,
  type TlsOptions,
  TokenRegistry,
} from "../../index.ts";
import { defineCommand, type ExitStatus } from "../command.ts";
import { enterFolder, isAnothers } from "../data-folder.ts";
import { introduce } from "../first-token.ts";
import { describeListenError } from "../listen-error.ts";
import { startLog } from "../logging/log.ts";
import { count, printLines, printNotice, report } from "../output.ts";
import { describeConfig } from "../print-config.ts";
import { Progress } from "../progress.ts";
import { numbersOf, requireMatch, SERVE_OPTIONS, type ServeOptions } from "../serve-options.ts";
import { ServeStatus } from "../serve-status.ts";
import { onReloadSignal, stopSignal } from "../signals.ts";
import { takeHeldSocket } from "../systemd.ts";
import { readTlsFiles } from "../tls-files.ts";
import { VERSION } from "../version.ts";

/**
 * `pm2 reload` starts a worker of node:cluster before it stops the one that it replaces, 3 s later
 * by default, and gives up a worker that ends sixteen times at once: a worker waits for the folder.
 */
const WORKER_WAIT_MS = 6000;
const WORKER_RETRY_MS = 250;

export const serve = defineCommand({
  name: "serve",
  summary: "serve POST /plants until SIGTERM or SIGINT",
  arguments: [],
  options: SERVE_OPTIONS,
  entersFolder: true,
  async run(_, options, explain) {
    requireMatch(options);
    if (options["print-config"] === true) {
      await printLines(describeConfig(explain()));
      return 0;
    }
    startLog({ format: options.log, level: options["log-level"] ?? "info" });
    const stop = stopSignal();
    const opened = await openFirst(options);
    const data = enterFolder(options.data ?? "");
    const status = new ServeStatus(data);
    const admin = startAdmin(options.admin, status);
    admin.catch(() => {}); // told when the store is open: a second server has to name the first one
    try {
      return await serveStore({ ...options, data }, opened, status, admin, stop);
    } catch (error) {
      if (error !== stop.reason) throw error;
      report({ level: "info", event: "stopped", message: "stopped before it was ready" });
      return 0;
    } finally {
      await (await admin.catch(() => undefined))?.close();
    }
  },
});

/** What the operator names besides the data directory. */
interface Opened {
  readonly fd: number | undefined;
  readonly bound: object | undefined;
  readonly tls: TlsOptions | undefined;
}

async function openFirst(options: ServeOptions): Promise<Opened> {
  const fd = takeHeldSocket();
  const tls = readTlsFiles(options);
  // For a worker the primary binds.
  const isLate = fd === undefined && !cluster.isWorker && isAnothers(options.data ?? "");
  return { fd, tls, bound: isLate ? await bindAddress(options) : undefined };
}

/** Node has it, but no word about it in its documentation. */
type CreateServerHandle = (address: string, port: number, family: number) => object | number;

/** Binds the address and does not listen yet; `undefined` if that fails, which listening reports. */
async function bindAddress({ host = "", port = 0 }: ServeOptions): Promise<object | undefined> {
  const { _createServerHandle: create } = net as unknown as {
    readonly _createServerHandle?: CreateServerHandle;
  };
  const { address, family } = await lookup(host).catch(() => ({ address: "", family: 0 }));
  const handle = family === 0 ? undefined : create?.(address, port, family);
  return typeof handle === "object" ? handle : undefined;
}

async function serveStore(
  options: ServeOptions,
  opened: Opened,
  status: ServeStatus,
  admin: Promise<AdminServer | undefined>,
  stop: AbortSignal,
): Promise<ExitStatus> {
  const { data = "", "first-token": firstToken = false } = options;
  const { fd, bound } = opened;
  let server: PlantServer | undefined;
  // From the beginning on: what asks for a reload must not end a server that is not ready.
  onReloadSignal(opened.tls && (() => reloadCertificate(server, options)));
  const store = await openStore(data, options, status, stop);
  let tokens: TokenRegistry | undefined;
  let exitStatus: ExitStatus = 0;
  try {
    const adminUrl = (await admin)?.url;
    tokens = await TokenRegistry.open(data);
    stop.throwIfAborted(); // from here on, and from the first request on, a signal drains
    const stopped = once(stop, "abort");
    const tls = rereadTlsFiles(options, opened.tls);
    server = await startServer({ plants: store, tokens, ...given({ fd, bound, tls }) }, options);
    status.ready(store, tokens);
    const welcome = firstToken ? await introduce(server.url, data, tokens) : [];
    // In one piece: whoever waits for the ready line finds the token beside it.
    printNotice([`plant-store listening on ${server.url}`, ...welcome]);
    reportListening(server.url, adminUrl, store.size);
    // Heard until the store is closed: a sync of the drain may fail, too.
    const failed = store.failed.then((failure) => {
      exitStatus = 1;
      status.end("failed");
      reportFailure(failure);
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

/** Opens the store, as soon as no other process has it where this one is a worker. */
async function openStore(
  data: string,
  options: ServeOptions,
  status: ServeStatus,
  stop: AbortSignal,
): Promise<PlantStore> {
  const deadline = performance.now() + (cluster.isWorker ? WORKER_WAIT_MS : 0);
  for (let tries = 0; ; tries++) {
    try {
      return await tryOpenStore(data, options, status, stop);
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

/** @throws the reason of the stop, where that comes while a long log is read. */
function tryOpenStore(
  data: string,
  options: ServeOptions,
  status: ServeStatus,
  stop: AbortSignal,
): Promise<PlantStore> {
  const progress = new Progress("reading the log");
  return PlantStore.open(data, {
    command: "serve",
    onProgress: (bytes, total) => {
      stop.throwIfAborted();
      status.reading(bytes, total);
      progress.update(bytes, total);
    },
    ...given({
      batchBytesMax: options["batch-bytes-max"],
      queueBytesMax: options["pending-bytes-max"],
    }),
  }).finally(Progress.clear);
}

async function startAdmin(
  address: AdminAddress | undefined,
  status: ServeStatus,
): Promise<AdminServer | undefined> {
  if (address === undefined) return undefined;
  try {
    return await AdminServer.start({ address, status, version: VERSION });
  } catch (error) {
    const where = formatAdminAddress(address);
    throw describeListenError(error as NodeJS.ErrnoException, where, "--admin");
  }
}

async function startServer(parts: ServerOptions, options: ServeOptions): Promise<PlantServer> {
  const { host = "", port = 0 } = options;
  try {
    return await PlantServer.start({
      ...parts,
      host,
      ...numbersOf(options),
      ...given<Partial<ServerOptions>>({
        basePath: options["base-path"],
        corsOrigins: options["cors-origin"],
      }),
    });
  } catch (error) {
    const address =
      parts.fd === undefined ? formatHostPort(host, port) : "the socket of the supervisor";
    throw describeListenError(error as NodeJS.ErrnoException, address);
  }
}

/** Again, as it may be long since. Root that became another user may not be allowed to any more. */
function rereadTlsFiles(
  options: ServeOptions,
  first: TlsOptions | undefined,
): TlsOptions | undefined {
  try {
    return readTlsFiles(options);
  } catch (error) {
    const { code } = (error as Error).cause as NodeJS.ErrnoException;
    if (code !== "EACCES") throw error;
    publishWarning(
      `serving with the certificate that was read at the start; SIGHUP cannot renew it: ` +
        `${(error as Error).message}; let the owner of the data directory read it`,
    );
    return first;
  }
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

/** Without the members that are undefined, as exact optional properties want it. */
function given<T extends object>(values: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T;
}

function reportListening(url: string, admin: string | undefined, plants: number): void {
  const status = admin === undefined ? "" : `; status at ${admin}`;
  const message = `listening on ${url}, ${count(plants, "plant")} stored${status}`;
  const fields = { url, admin, plants, version: VERSION, pid: process.pid };
  report({ level: "info", event: "listening", message, fields });
}

function reportFailure({ cause, message }: PlantStoreError): void {
  const why = cause instanceof Error ? cause.message : message;
  report({ level: "error", event: "failed", message: `the store has stopped: ${why}` });
}
