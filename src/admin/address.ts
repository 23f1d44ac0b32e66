/**
 * The address of the admin listener: how it is typed, who can reach it, and how it is taken. The
 * listener asks for no token, so that is all its protection: a Unix socket is for its owner alone
 * from the moment it is there, and never in the way of the next start.
 */
import { once } from "node:events";
import { chmodSync, lstatSync, rmSync } from "node:fs";
import net, { type AddressInfo, isIP, type Server } from "node:net";
import { isMainThread } from "node:worker_threads";
import { type AdminAddress, formatAdminAddress } from "../core/host-port.ts";
import { assertNumber, assertSocketPath, assertText } from "../core/options.ts";

/**
 * Reads `127.0.0.1:9180`, `[::1]:9180`, `localhost:9180` or a path with a slash
 * in it, `/run/plant-store/admin.sock`. Port 0 picks a free one.
 *
 * @throws RangeError when the text is neither.
 */
export function parseAdminAddress(text: string): AdminAddress {
  if (text.includes("/")) {
    assertSocketPath("admin", text);
    return { socketPath: text };
  }
  const [, host = "", port = ""] = /^(.+):([0-9]{1,5})$/.exec(text) ?? [];
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const isAddress = host === bare ? isIP(host) === 4 || NAME.test(host) : isIP(bare) === 6;
  if (isAddress && Number(port) <= 65_535) return { host: bare, port: Number(port) };
  throw new RangeError(
    `admin: expected HOST:PORT or the path of a socket with a slash in it, got "${text}"`,
  );
}

const NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;

/** @throws TypeError or RangeError, naming the option, when it is no address. @internal */
export function assertAdminAddress(address: AdminAddress): void {
  const given = { ...address }; // also where it is no object
  if ("socketPath" in given) assertSocketPath("address.socketPath", given.socketPath);
  else {
    assertText("address.host", given.host);
    assertNumber("port", given.port);
  }
}

/** Whether only this machine reaches it. @internal */
export function isLocal(address: AdminAddress): boolean {
  return "socketPath" in address || isLoopback(address.host);
}

/** A name proves nothing, but for the one that is reserved. */
function isLoopback(host: string): boolean {
  if (host.startsWith("127.")) return isIP(host) === 4;
  return host === "::1" || host.toLowerCase() === "localhost";
}

/**
 * Whether a Host header names this listener itself. A page of another origin
 * can have its own name resolve to our address (DNS rebinding), and would be
 * let read the answers; it cannot make its name an IP address or `localhost`.
 * No header means HTTP/1.0, and no browser.
 * @internal
 */
export function isOwnHost(header: string | undefined, address: AdminAddress): boolean {
  if ("socketPath" in address) return true; // no browser gets there
  if (header === undefined) return true;
  const host = header.replace(/:[0-9]*$/, "").toLowerCase();
  const literal = host.replace(/^\[(.*)\]$/, "$1");
  return isIP(literal) !== 0 || host === "localhost" || host === address.host.toLowerCase();
}

/**
 * Listens, and returns the URL, with the port that was picked for 0.
 *
 * @throws the system's error. @internal
 */
export async function listen(server: Server, address: AdminAddress): Promise<string> {
  if ("socketPath" in address) {
    await listenOnPath(server, address.socketPath);
    return formatAdminAddress(address);
  }
  const listening = once(server, "listening");
  server.listen({ ...address, exclusive: true }); // by this process, also as a worker of node:cluster
  await listening;
  return formatAdminAddress({ ...address, port: (server.address() as AddressInfo).port });
}

/** @throws the system's error; `EADDRINUSE` when a process listens there, or it is no socket. */
async function listenOnPath(server: Server, path: string): Promise<void> {
  await removeStale(path);
  const listening = once(server, "listening");
  // The mask is the process's, so it is set for one call; a worker thread may not set it.
  const mask = isMainThread ? process.umask(0o077) : undefined;
  try {
    // Exclusive: a worker of node:cluster would have the primary make the socket, with its mask.
    server.listen({ path, exclusive: true });
  } finally {
    if (mask !== undefined) process.umask(mask);
  }
  // It is bound at once; if not, the path is somebody else's.
  if (server.listening) chmodSync(path, 0o600);
  await listening;
}

/** Removes a socket that a dead process has left. */
async function removeStale(path: string): Promise<void> {
  const time = socketTime(path);
  if (time === undefined) return;
  const socket = net.connect({ path });
  const isRefused = await once(socket, "connect").then(
    () => false,
    ({ code }: NodeJS.ErrnoException) => code === "ECONNREFUSED",
  );
  socket.destroy();
  // Another process that found it so may have its own there by now.
  if (isRefused && time === socketTime(path)) rmSync(path, { force: true });
}

/** When the socket at a path was last changed, which tells it from another one; its inode may not. */
function socketTime(path: string): bigint | undefined {
  const entry = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return entry?.isSocket() ? entry.ctimeNs : undefined;
}
