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
  const { read } = LogFile.prototype;
  const { mock } = t.mock.method(
    LogFile.prototype,
    "read",
    async function (this: LogFile, buffer: Buffer, position: number) {
      await released;
      return read.call(this, buffer, position);
    },
  );
  return {
    count: () => mock.callCount(),
    release: () => {
      mock.restore();
      release();
    },
  };
}
