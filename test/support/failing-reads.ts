/** FAKE: reads of files that fail, as on a disk with a bad sector, while a test wants it. */
import type { TestContext } from "node:test";
import { LogFile } from "../../src/log/file.ts";

interface FailingReads {
  begin(): void;
  end(): void;
}

/** Where in a file reads fail. */
interface BadRange {
  readonly from: number;
  readonly to: number;
}

/** Fails the reads of logs that touch the range, from `begin()` to `end()`. */
export function failReads(
  t: TestContext,
  makeError: () => Error = () => Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" }),
  { from, to }: BadRange = { from: 0, to: Number.POSITIVE_INFINITY },
): FailingReads {
  let isBad = false;
  const fails = (bytes: number, position: number) =>
    isBad && position < to && position + bytes > from;
  const { read } = LogFile.prototype;
  t.mock.method(LogFile.prototype, "read", function (this: LogFile, buffer: Buffer, at: number) {
    return fails(buffer.length, at) ? Promise.reject(makeError()) : read.call(this, buffer, at);
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
