/** What a server listens on: an address, and the two files of a certificate. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { type AdminAddress, formatAdminAddress } from "../core/options.ts";
import { formatHostPort } from "../core/text.ts";
import type { TlsOptions } from "../index.ts";
import type { ServeOptions } from "./serve-options.ts";

/**
 * Describes why a server cannot listen, and what to do. Returns any other error as it is.
 *
 * @param address `undefined` for the socket of a supervisor.
 * @param option the options that set the address.
 */
export function describeListenError(
  error: NodeJS.ErrnoException,
  address: AdminAddress | undefined,
  option: string,
): Error {
  if (error.syscall === undefined) return error;
  const isPath = address !== undefined && "socketPath" in address;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: "it is in use; choose another with",
    EADDRNOTAVAIL: "this machine has no such address; choose another with",
    // libuv reports a missing folder like this, too.
    EACCES: isPath
      ? "its folder is missing, or closed to this user; choose another with"
      : "permission denied; choose a port from 1024 up with",
  };
  const reason = reasons[error.code ?? ""] ?? `${error.message}; see`;
  const typed = process.env.npm_lifecycle_event === "start" ? `npm start -- ${option}` : option;
  return new Error(`Cannot listen on ${describeAddress(address)}: ${reason} ${typed}`);
}

function describeAddress(address: AdminAddress | undefined): string {
  if (address === undefined) return "the socket of the supervisor";
  if ("socketPath" in address) return formatAdminAddress(address);
  return formatHostPort(address.host, address.port);
}

/**
 * Reads the files of the certificate. `undefined` if none are named.
 *
 * @throws Error naming the file that cannot be read, or is no certificate or key.
 */
export function readTlsFiles({ tlsCert, tlsKey }: ServeOptions): TlsOptions | undefined {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  return {
    cert: readPem("--tls-cert", tlsCert, "a certificate", (pem) => new X509Certificate(pem)),
    key: readPem("--tls-key", tlsKey, "a private key that is not encrypted", createPrivateKey),
  };
}

function readPem(
  option: string,
  file: string,
  expected: string,
  parse: (pem: Buffer) => unknown,
): Buffer {
  let fault = "";
  try {
    const pem = readFileSync(file);
    fault = `expected ${expected}, as PEM: `;
    parse(pem);
    return pem;
  } catch (cause) {
    throw new Error(`Cannot read ${option} "${file}": ${fault}${(cause as Error).message}`, {
      cause,
    });
  }
}
