/**
 * The Unix socket of the admin listener: for its owner alone from the moment it
 * is there, and never in the way of the next start.
 */
import { once } from "node:events";
import { chmodSync, lstatSync, rmSync } from "node:fs";
import net, { type Server } from "node:net";
import { isMainThread } from "node:worker_threads";

/**
 * Listens on a path. A socket that a dead process has left there is replaced.
 *
 * @throws the system's error; `EADDRINUSE` when a process listens there, or
 * when the path is no socket.
 */
export async function listenOnPath(server: Server, path: string): Promise<void> {
  const stale = await findStale(path);
  // Whoever else found it so may have its own there by now, but for the moment between these two.
  if (stale !== undefined && stale === socketTime(path)) rmSync(path, { force: true });
  const listening = once(server, "listening");
  // Exclusive: as a worker of node:cluster it would have the primary make the socket, with its mask.
  withUmask(0o077, () => server.listen({ path, exclusive: true }));
  // It is bound at once; if not, the path is somebody else's.
  if (server.listening) chmodSync(path, 0o600);
  await listening;
}

/** The mask is the process's, so for one call; other threads make nothing wider than this either. */
function withUmask(mask: number, work: () => void): void {
  const before = isMainThread ? process.umask(mask) : undefined; // a worker may not set it
  try {
    work();
  } finally {
    if (before !== undefined) process.umask(before);
  }
}

/** When the socket at a path came there, if nobody answers. */
async function findStale(path: string): Promise<bigint | undefined> {
  const time = socketTime(path);
  if (time === undefined) return undefined;
  const socket = net.connect({ path });
  try {
    await once(socket, "connect");
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ECONNREFUSED" ? time : undefined;
  } finally {
    socket.destroy();
  }
}

/** When the socket at a path was last changed, which tells it from another one; its inode may not. */
function socketTime(path: string): bigint | undefined {
  const entry = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return entry?.isSocket() ? entry.ctimeNs : undefined;
}
