/** The disk of this process, watched: for tests of what is done in which order, and of what a kill leaves. */
import { type Disk, disk, type OpenFile, setDisk } from "../../src/log/disk.ts";

/**
 * Does work, and calls `before` ahead of each operation that changes something.
 *
 * @param before gets the operation and its path, such as `rename /data/plants.jsonl`; if it throws, the operation
 * fails, and nothing is changed.
 */
export async function watchDisk<T>(
  before: (change: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const system = disk;
  const watchFile = (file: OpenFile, path: string): OpenFile => ({
    state: () => file.state(),
    read: (...args) => file.read(...args),
    append: async (...args) => {
      before(`append ${path}`);
      return file.append(...args);
    },
    truncate: (bytes) => {
      before(`truncate ${path}`);
      file.truncate(bytes);
    },
    sync: async () => {
      before(`sync ${path}`);
      return file.sync();
    },
    close: () => file.close(),
  });
  const watched: Disk = {
    openForReading: async (path) => watchFile(await system.openForReading(path), path),
    openForAppending: async (path) => {
      before(`open ${path}`);
      return watchFile(await system.openForAppending(path), path);
    },
    stat: (path) => system.stat(path),
    list: (folder) => system.list(folder),
    rename: (from, to) => {
      before(`rename ${to}`);
      system.rename(from, to);
    },
    unlink: (path) => {
      before(`unlink ${path}`);
      system.unlink(path);
    },
    makeFolder: (folder) => {
      before(`makeFolder ${folder}`);
      system.makeFolder(folder);
    },
    removeFolder: (folder) => {
      before(`removeFolder ${folder}`);
      system.removeFolder(folder);
    },
    syncFolder: async (folder) => {
      before(`syncFolder ${folder}`);
      return system.syncFolder(folder);
    },
  };
  setDisk(watched);
  try {
    return await work();
  } finally {
    setDisk(system);
  }
}

/** Does work that is killed ahead of its change with this number, from 0 on. Resolves with whether it was. */
export async function killAhead(change: number, work: () => Promise<unknown>): Promise<boolean> {
  let left = change;
  let isKilled = false;
  const kill = () => {
    if (left-- > 0) return;
    isKilled = true;
    throw new Error("killed");
  };
  await watchDisk(kill, work).catch((error) => {
    if (!isKilled) throw error;
  });
  return isKilled;
}

/** The changes that work makes, in order; `DIR` is the folder, and `LOG` the log in it. */
export async function changesOf(folder: string, work: () => Promise<unknown>): Promise<string[]> {
  const changes: string[] = [];
  await watchDisk((change) => changes.push(shorten(folder, change)), work);
  return changes;
}

/** Does work in which each such change fails: one of `changesOf`. */
export function failAt<T>(
  folder: string,
  failing: string,
  work: () => Promise<T>,
  code = "EIO",
): Promise<T> {
  const fail = (change: string) => {
    if (shorten(folder, change) === failing) throw Object.assign(new Error(code), { code });
  };
  return watchDisk(fail, work);
}

function shorten(folder: string, change: string): string {
  return change.replace(folder, "DIR").replace("DIR/plants.jsonl", "LOG");
}
