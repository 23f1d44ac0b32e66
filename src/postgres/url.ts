/**
 * The URL of a database, with libpq's parameters and meanings:
 * `postgresql://plants@a.example,b.example:5433/garden?sslrootcert=ca.pem`.
 *
 * Several hosts are separated by commas, each with its own port. A host may be the folder of a Unix socket,
 * percent-encoded. Differences from libpq: the store always wants the host that can write, and the default of
 * `sslmode` is `verify-full` unless every host is this machine. No message contains the password.
 */
import { readFileSync } from "node:fs";
import { formatHostPort } from "../core/text.ts";

/** @internal */
export interface DatabaseHost {
  /** A name, as in a certificate, an IP address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

/** @internal */
export interface DatabaseUrl {
  readonly hosts: readonly DatabaseHost[];
  readonly tls: {
    readonly mode: "disable" | "verify-ca" | "verify-full";
    /** PEM; `undefined`: the authorities that Node knows. */
    readonly ca: Buffer | undefined;
  };
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
}

/**
 * Without `allow` and `prefer`: an attacker who blocks TLS would get an unencrypted session. `require` checks the
 * certificate, too, or the password could go to a stranger.
 */
const TLS_MODES = {
  disable: "disable",
  "verify-ca": "verify-ca",
  "verify-full": "verify-full",
  require: "verify-full",
} as const;

/** The last three change nothing here, but psql shares the URL. */
const PARAMETERS =
  "sslmode, sslrootcert, target_session_attrs, channel_binding, connect_timeout".split(", ");

const DEFAULT_PORT = 5432;

/** Scheme and login, hosts, database and parameters: a "@" there ends a password that is not encoded. */
const URL_FORM = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^@/?#]*)([^@#]*)$/;

/**
 * Parses a URL, and reads the certificate that it names.
 *
 * @throws RangeError if it is no URL of a database, or the certificate cannot be read.
 * @internal
 */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const [, login, hosts = "", rest] = URL_FORM.exec(text) ?? [];
  try {
    // A URL of the WHATWG has one host.
    return readParts(hosts.split(",").map((host) => new URL(`${login}${host}${rest}`)));
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof URIError)) throw error;
    throw new RangeError(
      'url: expected "postgresql://user@host:port/database", with "," between hosts; in a name or a ' +
        'password percent-encode "@" as "%40", and "/", "?", "#", ":" and "%" likewise',
    );
  }
}

function readParts(urls: readonly URL[]): DatabaseUrl {
  const [{ searchParams, username, password, pathname }] = urls as [URL];
  const hosts = urls.map(({ hostname, port }) => {
    const host = decodeURIComponent(hostname).replace(/^\[(.*)\]$/, "$1");
    if (host === "" || port === "0") {
      throw new RangeError("url: expected a host, and a port above 0");
    }
    return { host, port: Number(port || DEFAULT_PORT) };
  });
  const unknown = [...searchParams.keys()].find((name) => !PARAMETERS.includes(name));
  if (unknown !== undefined) {
    throw new RangeError(
      `url: unknown parameter "${unknown}"; expected one of ${PARAMETERS.join(", ")}`,
    );
  }
  const byDefault = hosts.every(isLocal) ? "disable" : "verify-full";
  const sslmode = searchParams.get("sslmode") ?? byDefault;
  const mode = Object.entries(TLS_MODES).find(([name]) => name === sslmode)?.[1];
  if (mode === undefined) {
    throw new RangeError(
      `url: sslmode: expected ${Object.keys(TLS_MODES).join(", ")}, got "${sslmode}"`,
    );
  }
  const path = searchParams.get("sslrootcert") ?? "system";
  return {
    hosts,
    tls: { mode, ca: path === "system" ? undefined : readCertificate(path) },
    user: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
    database: decodeURIComponent(pathname.slice(1)) || undefined,
  };
}

function readCertificate(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new RangeError(`url: sslrootcert: cannot read "${path}": ${(cause as Error).message}`);
  }
}

/** Whether a host is this machine, so that its traffic crosses no network. */
function isLocal({ host }: DatabaseHost): boolean {
  return isSocketFolder(host) || host === "localhost" || host === "::1" || /^127\./.test(host);
}

/** @internal */
export function isSocketFolder(host: string): boolean {
  return host.startsWith("/");
}

/** As logs and messages name a host. @internal */
export function formatHost({ host, port }: DatabaseHost): string {
  return isSocketFolder(host) ? `${host}/.s.PGSQL.${port}` : formatHostPort(host, port);
}
