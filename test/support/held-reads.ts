/** FAKE: reads of logs that wait, as on a disk that hangs, until a test releases them. */
import type { TestContext } from "node:test";
import { LogFile } from "../../src/log/file.ts";
import { makeLatch } from "./watch.ts";

interface HeldReads {
  readonly count: () => number;
  /** Releases the waiting reads; later reads no longer wait. */
  readonly release: () => void;
}

/** Makes every read that begins from now on wait. A store that closes may wait for one. */
export function holdReads(t: TestContext): HeldReads {
  const { released, release } = makeLatch();
  const held = (["read", "readPieces"] as const).map((name) => {
    const read = LogFile.prototype[name] as (...given: unknown[]) => Promise<unknown>;
    return t.mock.method(
      LogFile.prototype,
      name,
      async function (this: LogFile, ...given: unknown[]) {
        await released;
        return read.apply(this, given);
      },
    );
  });
  return {
    count: () => held.reduce((sum, { mock }) => sum + mock.callCount(), 0),
    release: () => {
      for (const { mock } of held) mock.restore();
      release();
    },
  };
}
