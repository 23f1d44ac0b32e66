/**
 * `plant-store serve`: the store behind HTTP until a signal ends it.
 *
 * Prints one line on standard output when it is ready. SIGTERM or SIGINT
 * drains and exits 0, a second one ends it at once; a store that failed for
 * good exits 1, so that a supervisor starts it again from what is on disk.
 * SIGHUP reads the certificate again.
 */
import {
  createFirstToken,
  isLive,
  listTokens,
  PlantServer,
  PlantStore,
  type PlantStoreError,
  type ServerOptions,
  TokenRegistry,
} from "../../index.ts";
import { defineCommand, type OptionValues, UsageError } from "../command.ts";
import { describeListenError } from "../listen-error.ts";
import {
  BASE_PATH,
  DATA,
  HOST,
  number,
  PORT,
  parseSwitch,
  parseText,
  TLS_CERT,
} from "../options.ts";
import { printCommand, printLines, printMessage } from "../output.ts";
import { Progress } from "../progress.ts";
import { onReloadSignal, stopSignal } from "../signals.ts";
import { takeHeldSocket } from "../systemd.ts";
import { readTlsFiles } from "../tls-files.ts";

const OPTIONS = {
  data: DATA,
  host: HOST,
  port: PORT,
  "base-path": BASE_PATH,
  "tls-cert": TLS_CERT,
  "tls-key": {
    placeholder: "FILE",
    help: "the private key of the certificate (PEM, not encrypted)",
    parse: parseText,
  },
  "first-token": {
    help: "create a token if there is none, and show it once with a curl line",
    parse: parseSwitch,
  },
  "body-bytes-max": number("bodyBytesMax", "the longest body; beyond it 413"),
  "header-bytes-max": number("headerBytesMax", "request line and headers together; beyond it 431"),
  "header-timeout-ms": number("headerTimeoutMs", "to receive all headers; beyond it 408"),
  "request-timeout-ms": number("requestTimeoutMs", "to receive a whole request; beyond it 408"),
  "keep-alive-timeout-ms": number("keepAliveTimeoutMs", "how long an idle connection is kept"),
  "stall-timeout-ms": number("stallTimeoutMs", "a connection that stands still is cut after this"),
  "connection-check-interval-ms": number(
    "connectionCheckIntervalMs",
    "how often slow connections are looked for",
  ),
  "pending-bytes-max": number(
    "pendingBytesMax",
    "bodies under way, and records that wait; beyond it 503",
  ),
  "pending-requests-max": number(
    "pendingRequestsMax",
    "requests under way together; beyond it 503",
  ),
  "batch-bytes-max": number("batchBytesMax", "what goes out with one sync"),
  "drain-timeout-ms": number("drainTimeoutMs", "how long a stop waits for what is in flight"),
};

export const serve = defineCommand({
  name: "serve",
  summary: "serve POST /plants until SIGTERM or SIGINT",
  arguments: [],
  outputUse: "notice",
  options: OPTIONS,
  async run(_, options) {
    const { data = "", "first-token": firstToken = false } = options;
    requireRoom(options);
    const fd = takeHeldSocket();
    const hasTls = readTlsFiles(options) !== undefined;
    let server: PlantServer | undefined;
    // From the beginning on: what asks for a reload must not end a server that is not ready.
    onReloadSignal(hasTls ? () => reloadCertificate(server, options) : undefined);
    const progress = new Progress("reading the log");
    const store = await PlantStore.open(data, {
      command: "serve",
      onProgress: (bytes, total) => progress.update(bytes, total),
      ...given({
        batchBytesMax: options["batch-bytes-max"],
        queueBytesMax: options["pending-bytes-max"],
      }),
    }).finally(() => progress.clear());
    let tokens: TokenRegistry | undefined;
    try {
      tokens = await TokenRegistry.open(data);
      const end = Promise.race([stopSignal(), store.failed]); // a signal drains from the first request on
      const tls = readTlsFiles(options); // again, as it may be long since
      server = await startServer({ plants: store, tokens, ...given({ fd, tls }) }, options);
      if (firstToken) await introduce(server.url, data, tokens);
      await printLines([`plant-store listening on ${server.url}`]);
      const failure = await end;
      if (failure === undefined) return 0;
      printMessage(describeFailure(failure));
      return 1;
    } finally {
      await server?.close(options["drain-timeout-ms"]);
      tokens?.close();
      await store.close();
    }
  },
});

type ServeOptions = OptionValues<typeof OPTIONS>;

/** A body that can never be taken would be told to come again for ever. */
function requireRoom({
  "body-bytes-max": body = 0,
  "pending-bytes-max": pending = 0,
}: ServeOptions): void {
  if (body <= pending) return;
  throw new UsageError(
    `serve: expected --pending-bytes-max to be at least --body-bytes-max, got ${pending} and ${body}`,
  );
}

async function startServer(parts: ServerOptions, options: ServeOptions): Promise<PlantServer> {
  const { host = "", port = 0 } = options;
  try {
    return await PlantServer.start({
      ...parts,
      host,
      port,
      ...given<Partial<ServerOptions>>({
        basePath: options["base-path"],
        bodyBytesMax: options["body-bytes-max"],
        headerBytesMax: options["header-bytes-max"],
        headerTimeoutMs: options["header-timeout-ms"],
        requestTimeoutMs: options["request-timeout-ms"],
        keepAliveTimeoutMs: options["keep-alive-timeout-ms"],
        stallTimeoutMs: options["stall-timeout-ms"],
        connectionCheckIntervalMs: options["connection-check-interval-ms"],
        pendingBytesMax: options["pending-bytes-max"],
        pendingRequestsMax: options["pending-requests-max"],
      }),
    });
  } catch (error) {
    const address = parts.fd === undefined ? `${host}:${port}` : "the socket of the supervisor";
    throw describeListenError(error as NodeJS.ErrnoException, address);
  }
}

/** Connections that are open live on; a bad new pair leaves everything as it is. */
function reloadCertificate(server: PlantServer | undefined, options: ServeOptions): void {
  if (server === undefined) return; // it reads the files when it starts
  try {
    const tls = readTlsFiles(options);
    if (tls !== undefined) server.replaceCertificate(tls);
    printMessage("read the certificate again");
  } catch (error) {
    printMessage(`warning: keeping the certificate there is: ${(error as Error).message}`);
  }
}

/** Without the members that are undefined, as exact optional properties want it. */
function given<T extends object>(values: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T;
}

/** What a newcomer needs next: a token, made only once the server listens, and how to use it. */
async function introduce(url: string, data: string, tokens: TokenRegistry): Promise<void> {
  const token = await createFirstToken(data, { name: "first-token" });
  await tokens.refresh();
  if (token === undefined) {
    const now = Date.now();
    const live = (await listTokens(data)).filter((record) => isLive(record, now)).length;
    printMessage(
      `${live} token${live === 1 ? " exists" : "s exist"}; "token create NAME" makes another`,
    );
    return;
  }
  printMessage("created a token, shown only now; create a plant with it:");
  printCommand(
    `curl -X POST ${quoteForShell(`${url}/plants`)} -H 'Authorization: Bearer ${token}' ` +
      `-H 'Content-Type: application/json' ` +
      `-d '{"id":1,"name":"Monstera deliciosa","tag":"tropical"}'`,
  );
}

/** A base path may hold what a shell would take for itself. */
function quoteForShell(text: string): string {
  return /^[A-Za-z0-9:/._~-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function describeFailure({ cause, message }: PlantStoreError): string {
  return `the store has stopped: ${cause instanceof Error ? cause.message : message}`;
}
