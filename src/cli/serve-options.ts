/** The options of `serve`, the rules between them, and the table that shows them. */
import { flagOf, type OptionValues, type Setting, showSetting, UsageError } from "./command.ts";
import { DATABASE_OPTIONS, isDatabase } from "./database.ts";
import { LOG_FORMATS } from "./log.ts";
import {
  ADMIN,
  ADMIN_HOST,
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
import { formatTable, LEVELS } from "./output.ts";

export const SERVE_OPTIONS = {
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
  adminHost: ADMIN_HOST,
  log: oneOf(LOG_FORMATS, "the format of the log; if not given, text on a terminal, else json"),
  logLevel: {
    ...oneOf(LEVELS, "the least severe level that is logged; requests are info"),
    defaultText: "info",
  },
  printConfig: switchOption("print every option with its value and source, and exit"),
  corsOrigin: CORS_ORIGIN,
  trustedProxy: TRUSTED_PROXY,
  ...numbers({
    connectionsMax:
      "connections open at once; if not given, as many as open files and half of the heap allow",
    pendingBytesMax:
      "creates in flight, with their answers, and records that wait for the disk; beyond it 503; if not given, 4 to 64 MiB by the memory there is",
    pendingRequestsMax:
      "creates in flight together; beyond it 503; if not given, 1,024 to 16,384 by the memory there is",
    bodyBytesMax: "the longest body; beyond it 413",
    headerBytesMax: "request line and headers together; beyond it 431",
    headerTimeoutMs: "time to receive all headers, at most that for a whole request; beyond it 408",
    requestTimeoutMs: "time to receive a whole request; beyond it 408",
    keepAliveTimeoutMs: "how long an idle connection is kept",
    databaseDeadlineMs: "how long a request waits for the database; beyond it 503",
    databaseConnections: "connections to the database for creates",
    drainDelayMs: "how long a stop still accepts connections, each for one answer",
    drainTimeoutMs: "how long a stop waits for requests in flight",
  }),
} as const;

export type ServeOptions = OptionValues<typeof SERVE_OPTIONS>;

/** @throws UsageError if two options do not fit together. */
export function checkMatch(options: ServeOptions): void {
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

/** Every option, its value and its source, as a table. */
export function describeConfig(settings: readonly Setting[]): string[] {
  const rows = settings.map(({ name, text, source }) => [
    flagOf(name).slice(2),
    showSetting(name, text),
    source,
  ]);
  return formatTable([["OPTION", "VALUE", "FROM"], ...rows]);
}
