/** What the admin listener shows of a server. */
import { statfs } from "node:fs/promises";
import path from "node:path";
import type { Status } from "../admin/status.ts";
import { VERSION } from "./command.ts";
import { isDatabase, type Store, type StoreChoice } from "./store.ts";

/** How often the disk is polled. */
const DISK_POLL_MS = 10_000;

/** Resolves once the disk is known; it is polled from now on, by a timer that keeps no process alive. */
export async function followStatus(choice: StoreChoice, store: Store, url: string) {
  const folder = isDatabase(choice) ? undefined : path.resolve(choice.data);
  const status = {
    version: VERSION,
    folder,
    url,
    disk: undefined as Status["disk"],
    /** Set by `serve`, which knows that it ends. */
    ending: undefined as "draining" | "failed" | undefined,
    state: () => status.ending ?? store.state(),
    store: () => store.plants.status(),
    database: () => store.database(),
    tokens: () => store.tokens.list(),
  };
  // One poll at a time: each holds a thread of the pool, and a dying disk may not respond.
  const pollDisk = async (data: string) => {
    const disk = await statfs(data).catch(() => undefined);
    status.disk = disk?.blocks
      ? { freeBytes: disk.bavail * disk.bsize, totalBytes: disk.blocks * disk.bsize }
      : undefined;
    setTimeout(() => void pollDisk(data), DISK_POLL_MS).unref();
  };
  if (folder !== undefined) await pollDisk(folder);
  return status;
}
