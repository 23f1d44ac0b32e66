/**
 * `plant-store serve`: serves the store over HTTP until a signal ends it.
 *
 * SIGTERM or SIGINT drains the server, or aborts its start, and the exit status is 0. If the store
 * fails for good, even during a drain, the status is 1, so that a supervisor starts the server again
 * from what is on disk; or 3 if the machine has to be restarted before. The admin listener starts first and is
 * closed last.
 */

import { type AdminServer, startAdminServer } from "../admin/server.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { PlantServer, type ServerOptions } from "../index.ts";
import { type Backend, openBackend } from "./backend.ts";
import {
  defineCommand,
  type ExitStatus,
  isServiceLink,
  type OptionValues,
  UsageError,
  VERSION,
  variableOf,
} from "./command.ts";
import { ownFolder } from "./data-folder.ts";
import { DATABASE_OPTIONS, isDatabase } from "./database.ts";
import { Certificate, describeListenError } from "./endpoint.ts";
import { jsonFormat, LOG_FORMATS, startLog } from "./log.ts";
import {
  ADMIN,
  BASE_PATH,
  CORS_ORIGIN,
  DATA,
  HOST,
  numbers,
  oneOf,
  PORT,
  switchOption,
  TLS_CERT,
  TRUSTED_PROXY,
  textOption,
} from "./options.ts";
import { announce, count, LEVELS, type Notice, report } from "./output.ts";
import { ServeStatus } from "./serve-status.ts";

const SERVE_OPTIONS = {
  data: DATA,
  ...DATABASE_OPTIONS,
  host: HOST,
  port: PORT,
  basePath: BASE_PATH,
  tlsCert: TLS_CERT,
  tlsKey: textOption("FILE", "the private key of the certificate (PEM, not encrypted)"),
  firstToken: switchOption(
    "create a token if there is no live one, and print it once with two curl commands",
  ),
  admin: ADMIN,
  log: oneOf(LOG_FORMATS, "the format of the log; if not given, text on a terminal, else json"),
  logLevel: {
    ...oneOf(LEVELS, "the least severe level that is logged; requests are info"),
    defaultText: "info",
  },
  corsOrigin: CORS_ORIGIN,
  trustedProxy: TRUSTED_PROXY,
  ...numbers({
    bodyBytesMax: "the longest body; beyond it 413",
    requestTimeoutMs: "time to receive a whole request; beyond it 408",
    keepAliveTimeoutMs: "how long an idle connection is kept",
    databaseDeadlineMs: "how long a request waits for the database; beyond it 503",
    databaseConnections: "connections to the database for creates",
    drainTimeoutMs: "how long a stop waits for requests in flight",
  }),
} as const;

type ServeOptions = OptionValues<typeof SERVE_OPTIONS>;

export const serve = defineCommand({
  name: "serve",
  summary: "serve POST /plants until SIGTERM or SIGINT",
  options: SERVE_OPTIONS,
  readsVariables: true,
  async run(_, options) {
    checkMatch(options);
    startLog(options.log, options.logLevel);
    warnOfUnknownVariables();
    return await serveUntil(stopSignal(), options);
  },
});

/** @throws UsageError if two options do not fit together. */
function checkMatch(options: ServeOptions): void {
  const { tlsCert, tlsKey } = options;
  if (options.databaseRequireSync && !isDatabase(options)) {
    throw new UsageError(
      "serve: --database-require-sync needs a database; name it with --database",
    );
  }
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    const given = tlsCert === undefined ? "--tls-key" : "--tls-cert";
    throw new UsageError(`serve: expected both --tls-cert and --tls-key or neither, got ${given}`);
  }
}

function warnOfUnknownVariables(): void {
  const known = Object.keys(SERVE_OPTIONS).map(variableOf);
  const unknown = Object.entries(process.env).flatMap(([name, value]) => {
    const isOurs = name.startsWith("PLANT_STORE_") && !isServiceLink(name, value);
    return isOurs && !known.includes(name) ? [name] : [];
  });
  if (unknown.length === 0) return;
  publishWarning(
    `ignoring ${unknown.join(", ")}: serve has no such option; see plant-store serve --help`,
  );
}

async function serveUntil(stop: AbortSignal, options: ServeOptions): Promise<ExitStatus> {
  const data = isDatabase(options) ? undefined : options.data;
  if (data !== undefined) ownFolder(data);
  const certificate = Certificate.open(options.tlsCert, options.tlsKey);
  const status = new ServeStatus(data);
  const admin = startAdmin(options, status);
  // Awaited after the store is open: a second server must report the lock, not the address in use.
  admin.catch(() => {});
  let backend: Backend | undefined;
  let server: PlantServer | undefined;
  let failure: Error | undefined;
  try {
    backend = await openBackend(options, stop, (bytes, total) => status.reading(bytes, total));
    void status.pollDisk(); // the folder may be new
    const { plants, tokens } = backend;
    const adminUrl = (await admin)?.url;
    stop.throwIfAborted(); // from now on a signal drains
    const stopped = new Promise((resolve) => stop.addEventListener("abort", resolve));
    server = await startServer(options, { tls: certificate?.tls, plants, tokens });
    certificate?.follow(server);
    status.phase = "ready";
    status.backend = backend;
    status.url = server.url;
    const first = options.firstToken ? { token: await backend.createFirstToken() } : undefined;
    const { url } = server;
    const listening = describeListening({ url, admin: adminUrl, plants: plants.status().plants });
    // In one write: a program that waits for the ready line also finds the token.
    const isTerminal = process.stdout.isTTY;
    announce(isTerminal ? introduce(url, adminUrl, first) : encodeReady(listening, first));
    report(listening);
    // Watched until the store is closed, because a sync during the drain may fail, too.
    const failed = backend.failed.then((error) => {
      failure = error;
      const { cause, message } = error;
      status.phase = "failed";
      const why = cause instanceof Error ? cause.message : message;
      report({ level: "error", event: "failed", message: `the store has failed: ${why}` });
    });
    await Promise.race([stopped, failed]);
    if (failure === undefined) {
      status.phase = "draining";
      report({
        level: "info",
        event: "draining",
        message: "draining: responding to requests in flight",
      });
    }
  } catch (error) {
    if (error !== stop.reason) throw error;
    report({ level: "info", event: "stopped", message: "stopped before it was ready" });
  } finally {
    certificate?.stop();
    await server?.close(options.drainTimeoutMs);
    await backend?.close();
    status.stop();
    if (server !== undefined) report({ level: "info", event: "stopped", message: "stopped" });
    await (await admin.catch(() => undefined))?.close();
  }
  if (failure === undefined) return 0;
  return needsAPerson(failure.cause) ? 3 : 1; // what was in flight may have failed worse
}

/** Whether a restart would serve what is in memory only. */
function needsAPerson(cause: unknown): boolean {
  return cause instanceof PlantStoreError && cause.code === "unsynced";
}

/** Aborts at the first SIGTERM or SIGINT. A second signal ends the process at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  const onSignal = () => {
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    stop.abort();
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  return stop.signal;
}

async function startAdmin(
  { admin: address }: ServeOptions,
  status: ServeStatus,
): Promise<AdminServer | undefined> {
  if (address === undefined) return undefined;
  status.followDisk();
  return startAdminServer(address, status).catch((error) => {
    throw describeListenError(error, address, "--admin");
  });
}

type Parts = Pick<ServerOptions, "plants" | "tokens" | "tls">;

async function startServer(options: ServeOptions, parts: Parts): Promise<PlantServer> {
  const { host, port } = options;
  const all: ServerOptions = {
    ...parts,
    host,
    port,
    basePath: options.basePath,
    corsOrigins: options.corsOrigin,
    trustedProxies: options.trustedProxy,
    bodyBytesMax: options.bodyBytesMax,
    requestTimeoutMs: options.requestTimeoutMs,
    keepAliveTimeoutMs: options.keepAliveTimeoutMs,
  };
  return PlantServer.start(all).catch((error) => {
    throw describeListenError(error, { host, port }, "--host or --port");
  });
}

function describeListening(server: {
  url: string;
  admin: string | undefined;
  plants: number | undefined;
}): Notice {
  const status = server.admin === undefined ? "" : `; status at ${server.admin}`;
  const stored = server.plants === undefined ? "" : `, ${count(server.plants, "plant")} stored`;
  const message = `listening on ${server.url}${stored}${status}`;
  const fields = { ...server, version: VERSION, pid: process.pid };
  return { level: "info", event: "listening", message, fields };
}

/** The outcome of `--first-token`: no token if there is a live one. */
type FirstToken = { readonly token: string | undefined } | undefined;

const TOKEN_EXISTS = `a token exists already; "plant-store token create NAME --scope write --scope read" makes another`;
const TOKEN_CREATED = "created a token, shown only now";

/** For a program that starts the server: records as in the log. The second holds the token, so no log gets it. */
function encodeReady(listening: Notice, first: FirstToken): string[] {
  const ready = jsonFormat(listening, Date.now());
  if (first === undefined) return [ready];
  const { token = null } = first;
  const message = token === null ? TOKEN_EXISTS : TOKEN_CREATED;
  const time = new Date().toISOString();
  return [ready, JSON.stringify({ time, level: "info", event: "first_token", message, token })];
}

/** The same for people at a terminal, with commands that use the token. */
function introduce(url: string, adminUrl: string | undefined, first: FirstToken): string[] {
  const page = adminUrl === undefined ? [] : [`status page: ${adminUrl}`];
  const ready = [`plant-store listening on ${url}`, ...page];
  if (first === undefined) return ready;
  if (first.token === undefined) return [...ready, TOKEN_EXISTS];
  const address = `${url}/plants`.replaceAll("'", "'\\''"); // a base path may hold quotes
  const authorization = `-H 'Authorization: Bearer ${first.token}'`;
  const create =
    `curl -X POST '${address}' ${authorization} -H 'Content-Type: application/json' ` +
    `-d '{"id":1,"name":"Monstera deliciosa","tag":"tropical"}'`;
  return [
    ...ready,
    `${TOKEN_CREATED}; create a plant with it, and list all plants:`,
    "",
    `  ${create}`,
    "",
    `  curl '${address}' ${authorization}`,
    "",
  ];
}
