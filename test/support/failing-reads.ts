/** FAKE: reads of logs that fail, as on a disk with a bad sector, while a test wants it. */
import type { TestContext } from "node:test";
import { LogFile } from "../../src/log/file.ts";

interface FailingReads {
  begin(): void;
  end(): void;
}

/** Fails every read of a log from `begin()` to `end()`. */
export function failReads(t: TestContext): FailingReads {
  let isBad = false;
  const { read } = LogFile.prototype;
  t.mock.method(LogFile.prototype, "read", function (this: LogFile, buffer: Buffer, at: number) {
    if (!isBad) return read.call(this, buffer, at);
    return Promise.reject(Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" }));
  });
  return {
    begin: () => {
      isBad = true;
    },
    end: () => {
      isBad = false;
    },
  };
}
