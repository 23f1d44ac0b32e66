/** The options of `serve`, what holds between them, and the table that shows them. */
import { NUMBER_OPTIONS, type NumberOptionName } from "../core/options.ts";
import { type OptionSource, type OptionValues, UsageError } from "./command.ts";
import { LOG_FORMATS } from "./log.ts";
import {
  ADMIN,
  BASE_PATH,
  CORS_ORIGIN,
  DATA,
  HOST,
  number,
  oneOf,
  PORT,
  parseSwitch,
  TLS_CERT,
} from "./options.ts";
import { formatTable, LEVELS } from "./output.ts";

export const SERVE_OPTIONS = {
  data: DATA,
  host: HOST,
  port: PORT,
  "base-path": BASE_PATH,
  "tls-cert": TLS_CERT,
  "tls-key": { ...TLS_CERT, help: "the private key of the certificate (PEM, not encrypted)" },
  "first-token": {
    help: "create a token if there is none, and show it once with a curl line",
    parse: parseSwitch,
  },
  admin: ADMIN,
  log: oneOf(
    LOG_FORMATS,
    "what the log looks like; without, text on a terminal and json elsewhere",
  ),
  "log-level": { ...oneOf(LEVELS, "what the log holds; requests are info"), defaultText: "info" },
  "print-config": {
    help: "show every option with its value and where it came from, and end",
    parse: parseSwitch,
  },
  "body-bytes-max": number("bodyBytesMax", "the longest body; beyond it 413"),
  "header-bytes-max": number("headerBytesMax", "request line and headers together; beyond it 431"),
  "header-timeout-ms": number(
    "headerTimeoutMs",
    "to receive all headers, at most the time of a request; beyond it 408",
  ),
  "request-timeout-ms": number("requestTimeoutMs", "to receive a whole request; beyond it 408"),
  "keep-alive-timeout-ms": number("keepAliveTimeoutMs", "how long an idle connection is kept"),
  "stall-timeout-ms": number("stallTimeoutMs", "a connection that stands still is cut after this"),
  "connection-check-interval-ms": number(
    "connectionCheckIntervalMs",
    "how often slow and still connections are looked for",
  ),
  "connections-max": number(
    "connectionsMax",
    "connections open at once, further ones are closed; without, as many as open files and half of the heap allow",
  ),
  "pending-bytes-max": number(
    "pendingBytesMax",
    "bodies under way, and records that wait; beyond it 503",
  ),
  "pending-requests-max": number(
    "pendingRequestsMax",
    "requests under way together; beyond it 503",
  ),
  "read-bytes-max": number(
    "readBytesMax",
    "answers to reads that wait to be sent, together; beyond it 503",
  ),
  "cors-origin": CORS_ORIGIN,
  "batch-bytes-max": number("batchBytesMax", "what goes out with one sync"),
  "drain-timeout-ms": number("drainTimeoutMs", "how long a stop waits for what is in flight"),
} as const;

export type ServeOptions = OptionValues<typeof SERVE_OPTIONS>;

/** The numbers among them, under their names in the library: `--port` is `port`. */
export function numbersOf(options: ServeOptions): { [Name in NumberOptionName]?: number } {
  const named = Object.entries(options).map(([option, value]) => {
    return [option.replace(/-./g, ([, letter = ""]) => letter.toUpperCase()), value] as const;
  });
  return Object.fromEntries(named.filter(([name]) => Object.hasOwn(NUMBER_OPTIONS, name)));
}

/** @throws UsageError if two options do not go together. */
export function checkMatch(options: ServeOptions): void {
  const { "body-bytes-max": body, "pending-bytes-max": pending } = options;
  const { "tls-cert": cert, "tls-key": key } = options;
  // Clients would send a body that can never be taken again and again.
  if (body > pending) {
    throw new UsageError(
      `serve: expected --pending-bytes-max to be at least --body-bytes-max, got ${pending} and ${body}`,
    );
  }
  if ((cert === undefined) !== (key === undefined)) {
    const given = cert === undefined ? "--tls-key" : "--tls-cert";
    throw new UsageError(`serve: expected both --tls-cert and --tls-key or neither, got ${given}`);
  }
}

/** Every option with the value that is in force and where it came from, as a table. */
export function describeConfig(sources: readonly OptionSource[]): string[] {
  const rows = sources.map((each) => {
    const { option, text, source } = inForce(each, sources);
    return [option, text ?? "-", source ?? "not set"];
  });
  return formatTable([["OPTION", "VALUE", "FROM"], ...rows]);
}

/** Defaults that depend on the process, which may be another one than the service. */
const PROCESS_DEFAULTS: Readonly<Record<string, string>> = {
  log: "text on a terminal, else json",
  "connections-max": "as open files and heap allow",
};

/** What counts of an option, which may not be what was given. */
function inForce(given: OptionSource, sources: readonly OptionSource[]): OptionSource {
  const { option, text = PROCESS_DEFAULTS[option], source = "default" } = given;
  if (given.text === undefined) return text === undefined ? given : { option, text, source };
  if (option !== "header-timeout-ms") return given;
  // The server gives headers no more time than the whole request.
  const bound = "request-timeout-ms";
  const { text: most } = sources.find((other) => other.option === bound) ?? given;
  return Number(text) <= Number(most) ? given : { option, text: most, source: bound };
}
