/**
 * The URL of a database, with libpq's parameters and meanings:
 * `postgresql://plants@a.example,b.example:5433/garden?sslrootcert=ca.pem`.
 *
 * Several hosts are separated by commas, each with its own port. A host may be the folder of a Unix socket,
 * percent-encoded. Unlike libpq's, the default of `sslmode` is `verify-full` unless every host is this machine. No
 * message contains the password.
 */
import { readFileSync } from "node:fs";
import { formatHostPort } from "../core/text.ts";

export interface DatabaseHost {
  /** A name, as in a certificate, an IP address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

export type DatabaseUrl = ReturnType<typeof readParts>;

/** Not `allow` and `prefer`, with which an attacker could block TLS; `require` means `verify-full`. */
const SSL_MODES = ["disable", "verify-ca", "verify-full", "require"] as const;

/** The last three change nothing here, but psql shares the URL. */
const PARAMETERS = "sslmode, sslrootcert, target_session_attrs, channel_binding, connect_timeout";

/** Hosts that are this machine, so that their traffic crosses no network. */
const LOCAL_HOST = /^(?:\/|localhost$|::1$|127\.)/;

/** Scheme and login, hosts, database and parameters: a "@" there ends a password that is not encoded. */
const URL_FORM = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^@/?#]*)([^@#]*)$/;

/** @throws RangeError if the text is no URL of a database, or its certificate cannot be read. */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const [, login, hosts = "", rest] = URL_FORM.exec(text) ?? [];
  try {
    // A URL of the WHATWG has one host.
    return readParts(hosts.split(",").map((host) => new URL(`${login}${host}${rest}`)));
  } catch (error) {
    const { message, syscall } = error as NodeJS.ErrnoException;
    if (syscall) throw wrong(`sslrootcert: cannot read the file: ${message}`);
    if (!(error instanceof TypeError || error instanceof URIError)) throw error;
    throw wrong(
      'expected "postgresql://user@host:port/database", with "," between hosts; in a name or a ' +
        'password percent-encode "@" as "%40", and "/", "?", "#", ":" and "%" likewise',
    );
  }
}

function readParts(urls: readonly URL[]) {
  const [{ searchParams, username, password, pathname }] = urls as [URL];
  const hosts = urls.map(({ hostname, port }): DatabaseHost => {
    const host = decodeURIComponent(hostname).replace(/^\[(.*)\]$/, "$1");
    if (host === "" || port === "0") throw wrong("expected a host, and a port above 0");
    return { host, port: Number(port || 5432) };
  });
  const unknown = [...searchParams.keys()].find((name) => !PARAMETERS.split(", ").includes(name));
  if (unknown) throw wrong(`unknown parameter "${unknown}"; expected one of ${PARAMETERS}`);
  const isLocal = hosts.every(({ host }) => LOCAL_HOST.test(host));
  const given = searchParams.get("sslmode") ?? (isLocal ? "disable" : "verify-full");
  const mode = SSL_MODES.find((each) => each === given);
  if (mode === undefined) throw wrong(`sslmode: expected ${SSL_MODES.join(", ")}, got "${given}"`);
  const root = searchParams.get("sslrootcert") ?? "system";
  return {
    hosts,
    sslmode: mode === "require" ? "verify-full" : mode,
    // PEM; `undefined`: the authorities that Node knows.
    ca: root === "system" ? undefined : readFileSync(root),
    user: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
    database: decodeURIComponent(pathname.slice(1)) || undefined,
  };
}

function wrong(message: string): RangeError {
  return new RangeError(`url: ${message}`);
}

/** As logs and messages name a host; two hosts of one name are the same. */
export function formatHost({ host, port }: DatabaseHost): string {
  return host.startsWith("/") ? `${host}/.s.PGSQL.${port}` : formatHostPort(host, port);
}
