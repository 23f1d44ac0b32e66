/**
 * `plant-store serve`: serves the store over HTTP until a signal ends it.
 *
 * SIGTERM or SIGINT drains the server, and the exit status is 0; a second one ends the process, which loses no
 * acknowledged plant. If the store fails for good, even during a drain, the status is 1, so that a supervisor
 * starts the server again from what is on disk; or 3 if the machine has to be restarted before.
 */
import { type AdminServer, startAdminServer } from "../admin/server.ts";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { PlantServer } from "../index.ts";
import { followCertificate, readCertificate } from "./certificate.ts";
import {
  defineCommand,
  type ExitStatus,
  isServiceLink,
  type OptionValues,
  UsageError,
  VERSION,
  variableOf,
} from "./command.ts";
import { LOG_FORMATS, startLog } from "./log.ts";
import { flag, LISTENER, numbers, oneOf } from "./options.ts";
import { count, LEVELS, printLines, report } from "./output.ts";
import { followStatus } from "./status.ts";
import { isDatabase, openStore, STORE, type Store } from "./store.ts";

const SERVE_OPTIONS = {
  ...STORE,
  ...LISTENER,
  firstToken: flag("print a new token if there is no live one"),
  log: oneOf(LOG_FORMATS, "default text on a terminal, else json"),
  logLevel: { ...oneOf(LEVELS, "the least severe level that is logged"), defaultText: "info" },
  ...numbers({
    bodyBytesMax: "the longest body; beyond it 413",
    requestTimeoutMs: "time to receive a request; beyond it 408",
    keepAliveTimeoutMs: "how long a connection stays open without traffic",
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
    if (options.databaseRequireSync && !isDatabase(options)) {
      throw new UsageError("serve: --database-require-sync: expected --database with it");
    }
    startLog(options.log, options.logLevel);
    const tls = readCertificate(options);
    warnOfUnknownVariables();
    const stopped = new Promise<undefined>((resolve) => {
      // Without a listener, a second signal ends the process at once.
      for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => resolve(undefined));
    });
    const store = await Promise.race([openStore(options, "serve"), stopped]);
    if (store !== undefined) return serveStore(store, stopped, options, tls);
    report("info", "stopped", "stopped before it was ready");
    return 0; // the process ends in the middle of the start, as in a crash
  },
});

/** A variable whose name is mistyped would be ignored. */
function warnOfUnknownVariables(): void {
  const known = Object.keys(SERVE_OPTIONS).map(variableOf);
  const unknown = Object.entries(process.env).flatMap(([name, value]) => {
    const isUnknown = name.startsWith("PLANT_STORE_") && !known.includes(name);
    return isUnknown && !isServiceLink(name, value) ? [name] : [];
  });
  if (unknown.length === 0) return;
  publishWarning(`ignoring ${unknown.join(", ")}; see plant-store serve --help`);
}

/** Serves an open store until the signal, or until it fails; then closes everything. */
async function serveStore(
  store: Store,
  stopped: Promise<unknown>,
  options: ServeOptions,
  tls: ReturnType<typeof readCertificate>,
): Promise<ExitStatus> {
  let failure: Error | undefined;
  let server: PlantServer | undefined;
  let admin: AdminServer | undefined;
  let following: NodeJS.Timeout | undefined;
  try {
    const { plants, tokens } = store;
    const { corsOrigin: corsOrigins, trustedProxy: trustedProxies } = options;
    const parts = { plants, tokens, tls, corsOrigins, trustedProxies };
    server = await PlantServer.start({ ...options, ...parts }).catch(nameOption("--host, --port"));
    following = tls && followCertificate(server, options, tls);
    const status = await followStatus(options, store, server.url);
    const { admin: address } = options;
    admin = address && (await startAdminServer(address, status).catch(nameOption("--admin")));
    reportListening(server.url, admin?.url, plants.status().plants);
    if (options.firstToken) await printFirstToken(store, server.url);
    // Watched until the store is closed, because a sync during the drain may fail, too.
    const failed = store.failed.then((error) => {
      failure = error;
      status.ending = "failed";
      const { message } = error.cause instanceof Error ? error.cause : error;
      report("error", "failed", `the store failed: ${message}`);
    });
    await Promise.race([stopped, failed]);
    if (failure === undefined) {
      status.ending = "draining";
      report("info", "draining", "draining: responding to requests in flight");
    }
  } finally {
    clearInterval(following);
    await server?.close(options.drainTimeoutMs);
    await admin?.close();
    await store.close();
    if (server !== undefined) report("info", "stopped", "stopped");
  }
  if (failure === undefined) return 0;
  const { cause } = failure; // what was in flight may have failed worse
  return cause instanceof PlantStoreError && cause.code === "unsynced" ? 3 : 1;
}

/** Makes a handler that rethrows why a server cannot listen, with the option that sets the address. */
function nameOption(options: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    if (error.syscall === undefined) throw error;
    throw new Error(`${error.message}; see ${options}`);
  };
}

function reportListening(url: string, admin: string | undefined, plants: number | undefined): void {
  const stored = plants === undefined ? "" : `, ${count(plants, "plant")} stored`;
  const page = admin === undefined ? "" : `; status page: ${admin}`;
  const fields = { url, admin, plants, version: VERSION, pid: process.pid };
  report("info", "listening", `listening on ${url}${stored}${page}`, fields);
}

/**
 * Prints a token if there is no live one: alone to a program, with commands that use it to people. Does not wait
 * for the reader.
 */
async function printFirstToken({ tokens, tokenTable }: Store, url: string): Promise<void> {
  if (tokens.list().length > 0) return;
  const creating = tokenTable.create({ name: "first-token", scopes: ["write", "read"] });
  const token = await creating.catch((error) => {
    if (error.code !== "token_exists") throw error; // else another server was first
  });
  if (token === undefined) return;
  const quoted = `'${`${url}/plants`.replaceAll("'", "'\\''")}'`; // a base path may hold quotes
  const curl = `  curl -w '\\n' ${quoted} -H 'Authorization: Bearer ${token}'`;
  const create = `${curl} -H 'Content-Type: application/json' -d '{"id":1,"name":"Monstera deliciosa","tag":"tropical"}'`;
  const title = "created a token, shown only now; create a plant with it, and list all plants:";
  const lines = process.stdout.isTTY ? [title, "", create, "", curl, ""] : [token];
  await tokens.refresh(); // from now on this server accepts it
  void printLines(lines);
}
