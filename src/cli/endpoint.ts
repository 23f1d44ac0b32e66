/** What a server listens on: an address, and the two files of a certificate. */
import cluster from "node:cluster";
import { lookup } from "node:dns/promises";
import { readFileSync } from "node:fs";
import net from "node:net";
import { publishWarning } from "../core/channels.ts";
import { type AdminAddress, formatAdminAddress, formatHostPort } from "../core/host-port.ts";
import type { TlsOptions } from "../index.ts";
import { isAnothers } from "./data-folder.ts";
import type { ServeOptions } from "./serve-options.ts";

/** Node has it, but no word about it in its documentation. */
type CreateServerHandle = (address: string, port: number, family: number) => object | number;

/**
 * Binds the address and does not listen yet, if root is about to become the owner of the data
 * directory, who may not. `undefined` if it cannot be had, which listening reports.
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
 * Why an address cannot be had, for the person who chose it.
 *
 * @param option what chose the port or the path.
 * @param address `undefined` for the socket of a supervisor.
 */
export function describeListenError(
  error: unknown,
  option: "--port" | "--admin",
  address: AdminAddress | undefined,
): Error {
  const reason = reasonOf((error as NodeJS.ErrnoException).code, option, address);
  if (reason === undefined) return error as Error;
  return new Error(`Cannot listen on ${describeAddress(option, address)}: ${reason}`);
}

function describeAddress(option: "--port" | "--admin", address: AdminAddress | undefined): string {
  if (address === undefined) return "the socket of the supervisor";
  const isService = option === "--port" && "host" in address;
  return isService ? formatHostPort(address.host, address.port) : formatAdminAddress(address);
}

function reasonOf(code: string | undefined, option: string, address: AdminAddress | undefined) {
  const isPath = address !== undefined && "socketPath" in address;
  switch (code) {
    case "EADDRINUSE":
      return isPath
        ? `another program does, or it is no socket; choose another ${option}`
        : `another program does; choose another ${option}, or stop it`;
    case "EACCES": // libuv says so of a folder that is missing, too
      return isPath
        ? `its folder is missing or closed to this user; see ${option}`
        : `permission denied; choose a port from 1024 up in ${option}`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `this machine has no such address; see ${option === "--port" ? "--host" : option}`;
    case "EBADF":
    case "EINVAL":
    case "ENOTSOCK":
      return "it is no listening socket";
    default:
      return undefined;
  }
}

/**
 * What the files of the certificate hold, or `undefined` if they are not named.
 *
 * @throws Error naming the file that cannot be read.
 */
export function readTlsFiles(options: ServeOptions): TlsOptions | undefined {
  const { tlsCert: cert, tlsKey: key } = options;
  if (cert === undefined || key === undefined) return undefined;
  return { cert: readTlsFile(cert, "certificate"), key: readTlsFile(key, "private key") };
}

function readTlsFile(path: string, what: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`Cannot read the ${what}: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * The files as they are after a long start; `first` if root, which read that, has become a user who
 * may not read them.
 */
export function rereadTlsFiles(
  options: ServeOptions,
  first: TlsOptions | undefined,
): TlsOptions | undefined {
  try {
    return readTlsFiles(options);
  } catch (error) {
    const { code } = (error as Error).cause as NodeJS.ErrnoException;
    if (code !== "EACCES") throw error;
    publishWarning(
      `serving with the certificate that was read at the start; SIGHUP cannot renew it: ` +
        `${(error as Error).message}; let the owner of the data directory read it`,
    );
    return first;
  }
}
