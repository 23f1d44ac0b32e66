/**
 * The URL of a database, with libpq's parameters and meanings:
 * `postgresql://plants@a.example,b.example:5433/garden?sslrootcert=ca.pem`.
 *
 * Several hosts are separated by commas, each with its own port. A host may be the folder of a Unix
 * socket, percent-encoded. Differences from libpq: the store always wants the host that can write,
 * and the default of `sslmode` is `verify-full` unless every host is on this machine. No message
 * contains the password. Reads no environment.
 */
import { readFileSync } from "node:fs";

/** @internal */
export interface DatabaseTarget {
  readonly hosts: readonly DatabaseHost[];
  readonly tls: TlsRule;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
}

/** @internal */
export interface DatabaseHost {
  /** A name, as in a certificate, an IP address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

/** @internal */
export interface TlsRule {
  /** How much of the server's certificate is checked. */
  readonly mode: TlsMode;
  /** PEM; `undefined`: the authorities that Node knows. */
  readonly ca: Buffer | undefined;
}

/**
 * `require` means `verify-full`. Without `allow` and `prefer`: an attacker who blocks TLS would get an
 * unencrypted session.
 */
const TLS_MODES = ["disable", "verify-ca", "verify-full", "require"] as const;
/** @internal */
type TlsMode = (typeof TLS_MODES)[number];

/** The last three change nothing here, but psql shares the URL. */
const PARAMETERS = [
  "sslmode",
  "sslrootcert",
  "target_session_attrs",
  "channel_binding",
  "connect_timeout",
] as const;
type Parameters = Partial<Record<(typeof PARAMETERS)[number], string>>;

const DEFAULT_PORT = 5432;

/** Scheme and login, hosts, database and parameters: a "@" there ends a password that is not encoded. */
const URL_FORM = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^@/?#]*)([^@#]*)$/;

/**
 * Parses a URL, and reads the certificate that it names.
 *
 * @throws RangeError if it is no URL of a database, or the certificate cannot be read.
 * @internal
 */
export function parseDatabaseUrl(url: string): DatabaseTarget {
  const [, login, hosts = "", rest] = URL_FORM.exec(url) ?? [];
  try {
    // A URL of the WHATWG has one host.
    const urls = hosts.split(",").map((host) => new URL(`${login}${host}${rest}`));
    return readTarget(urls);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof URIError)) throw error;
    throw fault(
      'expected "postgresql://user@host:port/database", with "," between hosts; in a name or a password ' +
        'percent-encode "@" as "%40", and "/", "?", "#", ":" and "%" likewise',
    );
  }
}

function readTarget(urls: readonly URL[]): DatabaseTarget {
  const [url] = urls as [URL];
  const hosts = urls.map(({ hostname, port }) => {
    const host = decodeURIComponent(hostname).replace(/^\[(.*)\]$/, "$1");
    if (host === "" || port === "0") throw fault("expected a host, and a port above 0");
    return { host, port: Number(port || DEFAULT_PORT) };
  });
  const parameters: Parameters = Object.fromEntries(url.searchParams);
  const unknown = Object.keys(parameters).find((name) => !PARAMETERS.some((each) => each === name));
  if (unknown !== undefined) {
    throw fault(`unknown parameter "${unknown}"; known are ${PARAMETERS.join(", ")}`);
  }
  return {
    hosts,
    tls: readTlsRule(parameters, hosts),
    user: decodeURIComponent(url.username) || undefined,
    password: decodeURIComponent(url.password) || undefined,
    database: decodeURIComponent(url.pathname.slice(1)) || undefined,
  };
}

/** @internal */
export function isSocketFolder(host: string): boolean {
  return host.startsWith("/");
}

/** As logs and messages name a host. @internal */
export function formatHost({ host, port }: DatabaseHost): string {
  if (isSocketFolder(host)) return `${host}/.s.PGSQL.${port}`;
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function readTlsRule(parameters: Parameters, hosts: readonly DatabaseHost[]): TlsRule {
  const { sslrootcert: path } = parameters;
  const byDefault = hosts.every(isLocal) ? "disable" : "verify-full";
  const mode = readMode(parameters.sslmode) ?? byDefault;
  return {
    mode: mode === "require" ? "verify-full" : mode,
    ca: path === undefined || path === "system" ? undefined : readCertificate(path),
  };
}

function readCertificate(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw fault(`sslrootcert: cannot read "${path}": ${(cause as Error).message}`);
  }
}

/** Whether a host is this machine, so that its traffic crosses no network. */
function isLocal({ host }: DatabaseHost): boolean {
  return isSocketFolder(host) || host === "localhost" || host === "::1" || /^127\./.test(host);
}

function readMode(text: string | undefined): TlsMode | undefined {
  const mode = TLS_MODES.find((candidate) => candidate === text);
  if (mode !== undefined || text === undefined) return mode;
  throw fault(`sslmode: expected ${TLS_MODES.join(", ")}, got "${text}"`);
}

function fault(message: string): RangeError {
  return new RangeError(`url: ${message}`);
}
