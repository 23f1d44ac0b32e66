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
  if (await isStale(path)) unlinkSync(path);
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

async function isStale(path: string): Promise<boolean> {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) return false;
  const socket = net.connect({ path });
  try {
    await once(socket, "connect");
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ECONNREFUSED";
  } finally {
    socket.destroy();
  }
}
