/** What whoever opens a store may choose. What the numbers may be, core/options says. */
import { assertFunction, assertText, readNumber } from "../core/options.ts";

export interface PlantStoreOptions {
  /** What this process does, named to whoever finds the directory locked. Default: `library`. */
  readonly command?: string;
  /** A batch takes records until it holds this many bytes. Default, and most: 1 MiB. */
  readonly batchBytesMax?: number;
  /** More bytes of records than this never wait for the disk. Default: 64 MiB. */
  readonly queueBytesMax?: number;
  /** Receives how much of the log is read, about once a MiB; an error it throws aborts the opening. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

/**
 * The options of a store, each with its default.
 *
 * @throws TypeError or RangeError for one of the wrong type or out of its range.
 * @internal
 */
export function readOptions(options: PlantStoreOptions) {
  const { command = "library", onProgress } = options;
  assertText("command", command);
  assertFunction("onProgress", onProgress);
  return {
    command,
    onProgress,
    batchBytesMax: readNumber(options, "batchBytesMax"),
    queueBytesMax: readNumber(options, "queueBytesMax"),
  };
}
