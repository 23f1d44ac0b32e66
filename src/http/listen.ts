/** Where a server listens: an address of its own, or a socket that somebody else holds open. */
import type { Server } from "node:http";
import net, { type AddressInfo } from "node:net";
import { formatHostPort } from "../core/host-port.ts";
import { DEFAULT_HOST, readNumber, requireDescriptor, requireText } from "../core/options.ts";

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** Default: 8080; 0 picks a free one. */
  readonly port?: number;
  /**
   * The descriptor of a listening socket that this process was given, as
   * systemd's socket activation does (sd_listen_fds(3): the first is 3); then
   * `host` and `port` do not count. Who holds the socket too, and the next
   * process that is given it, find there what this server did not accept: a
   * restart refuses no connection.
   */
  readonly fd?: number;
}

/**
 * Connections that wait to be accepted, as many as Linux permits by default (net.core.somaxconn).
 * Node's own 511 has the rest of a thousand that come at once wait a second for their next try.
 */
const BACKLOG = 4096;

/**
 * @throws the system's error when the address cannot be had; TypeError or
 * RangeError for an option of the wrong type or out of its range.
 * @internal
 */
export async function listen(server: Server, options: ListenOptions): Promise<void> {
  const { host = DEFAULT_HOST, fd } = options;
  requireText("host", host);
  const port = readNumber(options, "port");
  requireDescriptor("fd", fd);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    const where = fd === undefined ? { host, port } : { fd };
    server.listen({ ...where, backlog: BACKLOG }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/**
 * Stops to accept, and leaves what is open and what waits in the queue of a shared socket.
 * @internal
 */
export function stopAccepting(server: Server): void {
  net.Server.prototype.close.call(server);
}

/**
 * `127.0.0.1:8080`, `[::1]:8080`; `localhost` where the socket has no such address (unix(7)).
 * @internal
 */
export function addressOf(server: Server): string {
  const address = server.address() as AddressInfo | string | null;
  if (address === null || typeof address === "string") return "localhost";
  return formatHostPort(address.address, address.port);
}
