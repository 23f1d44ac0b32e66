/**
 * The Unix socket of the admin listener: for its owner alone from the moment it
 * is there, and never in the way of the next start.
 */
import { once } from "node:events";
import { chmodSync, lstatSync, unlinkSync } from "node:fs";
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
  // Whoever else found it so may have its own there by now.
  if (stale !== undefined && stale === identityOf(path)) unlinkSync(path);
  const listening = once(server, "listening");
  withUmask(0o077, () => server.listen({ path }));
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

/** The socket at a path, if nobody answers there. */
async function findStale(path: string): Promise<string | undefined> {
  const identity = identityOf(path);
  if (identity === undefined) return undefined;
  const socket = net.connect({ path });
  try {
    await once(socket, "connect");
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ECONNREFUSED" ? identity : undefined;
  } finally {
    socket.destroy();
  }
}

/** Which socket there is at a path, if any; its inode alone may be another one's again. */
function identityOf(path: string): string | undefined {
  const entry = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return entry?.isSocket() ? `${entry.ino}.${entry.ctimeNs}` : undefined;
}
