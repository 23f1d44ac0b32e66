/** FAKE: writes and syncs of files that fail, as on a full or a dying disk. */
import fs from "node:fs";
import os from "node:os";
import type { TestContext } from "node:test";

/** How a call ends. */
export interface End {
  /** How many bytes reach the file before. */
  readonly written?: number;
  /** The system's error; without one the call returns the count. */
  readonly code?: string;
  /** Runs after that. */
  readonly after?: () => void;
}

/** The next writes, or syncs, of any open file end as given, in order; later ones are real. */
const endCalls =
  (method: "write" | "sync") =>
  async (t: TestContext, ...ends: readonly End[]): Promise<void> => {
    const handle = await fs.promises.open("/dev/null");
    const prototype = Object.getPrototypeOf(handle);
    await handle.close();
    const real = prototype[method];
    const spy = t.mock.method(
      prototype,
      method,
      async function (this: unknown, ...args: unknown[]) {
        const end = ends[spy.mock.callCount()];
        if (end === undefined) return real.apply(this, args);
        const [bytes, offset, length] = args as [Buffer, number, number];
        const written = Math.min(end.written ?? 0, length ?? 0);
        if (written > 0) await real.call(this, bytes, offset, written, null);
        end.after?.();
        if (end.code === undefined) return { bytesWritten: written };
        const errno = -(os.constants.errno[end.code as "EIO"] ?? 0);
        throw Object.assign(new Error(`${end.code}: fake`), { code: end.code, errno });
      },
    );
  };

export const endWrites = endCalls("write");
export const endSyncs = endCalls("sync");
