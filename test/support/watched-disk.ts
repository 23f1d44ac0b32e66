/** The disk of this process, watched: for tests of what is done in which order, and of what a kill leaves. */
import { disk, setDisk } from "../../src/log/disk.ts";

/** The methods that change something, and which of their arguments is the path; an open file has its own. */
const CHANGES: Readonly<Record<string, number>> = {
  ...{ rename: 1, unlink: 0, makeFolder: 0, removeFolder: 0, syncFolder: 0 },
  ...{ append: -1, truncate: -1, sync: -1 },
};

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
  const watch = <Target extends object>(target: Target, own = ""): Target =>
    new Proxy(target, {
      get(_, key) {
        const name = String(key);
        const method: unknown = Reflect.get(target, key);
        if (typeof method !== "function") return method; // there is no `then`
        const member = method.bind(target);
        const at = CHANGES[name];
        if (name.startsWith("open")) {
          return async (path: string) => {
            if (name === "openForAppending") before(`open ${path}`);
            return watch(await member(path), path);
          };
        }
        if (at === undefined) return member;
        return (...args: readonly unknown[]) => {
          try {
            before(`${name} ${args[at] ?? own}`);
          } catch (error) {
            if (/^(append|sync)/.test(name)) return Promise.reject(error);
            throw error;
          }
          return member(...args);
        };
      },
    });
  setDisk(watch(system));
  try {
    return await work();
  } finally {
    setDisk(system);
  }
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
