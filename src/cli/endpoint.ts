/** What a server listens on: an address, and the two files of a certificate. */
import cluster from "node:cluster";
import { lookup } from "node:dns/promises";
import { readFileSync } from "node:fs";
import net from "node:net";
import { type AdminAddress, formatAdminAddress, formatHostPort } from "../core/host-port.ts";
import type { TlsOptions } from "../index.ts";
import { isAnothers } from "./data-folder.ts";
import type { ServeOptions } from "./serve-options.ts";

/** Node has it, and does not document it. */
type CreateServerHandle = (address: string, port: number, family: number) => object | number;

/**
 * Binds the address, without listening, if root is about to become the owner of the data directory,
 * who may not bind it. `undefined` if it cannot be bound: listening reports why.
 */
export async function bindAsRoot(options: ServeOptions): Promise<object | undefined> {
  if (cluster.isWorker || !isAnothers(options.data)) return undefined; // for a worker the primary binds
  const { _createServerHandle: create } = net as unknown as {
    readonly _createServerHandle?: CreateServerHandle;
  };
  const found = await lookup(options.host).catch(() => undefined);
  const handle = found && create?.(found.address, options.port, found.family);
  return typeof handle === "object" ? handle : undefined;
}

/**
 * Says why a server cannot listen, and what to do. Returns any other error as it is.
 *
 * @param address `undefined` for the socket of a supervisor.
 * @param option the options that chose it.
 */
export function describeListenError(
  error: NodeJS.ErrnoException,
  address: AdminAddress | undefined,
  option: string,
): Error {
  if (error.syscall === undefined) return error;
  const isPath = address !== undefined && "socketPath" in address;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: "it is in use; choose another",
    EADDRNOTAVAIL: "this machine has no such address; choose another",
    // libuv reports a missing folder so, too.
    EACCES: isPath
      ? "its folder is missing, or closed to this user; choose another"
      : "permission denied; choose a port from 1024 up in",
  };
  const reason = reasons[error.code ?? ""] ?? `${error.message}; see`;
  return new Error(`Cannot listen on ${describeAddress(address)}: ${reason} ${option}`);
}

function describeAddress(address: AdminAddress | undefined): string {
  if (address === undefined) return "the socket of the supervisor";
  if ("socketPath" in address) return formatAdminAddress(address);
  return formatHostPort(address.host, address.port);
}

/**
 * Reads the files of the certificate. `undefined` if none are named.
 *
 * @throws Error naming the file that cannot be read.
 */
export function readTlsFiles({ tlsCert, tlsKey }: ServeOptions): TlsOptions | undefined {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  try {
    return { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) };
  } catch (cause) {
    throw new Error(`Cannot read --tls-cert or --tls-key: ${(cause as Error).message}`, { cause });
  }
}
