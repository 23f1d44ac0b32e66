/**
 * The newest batches of a log in memory: most repeats follow their create within seconds, and a read of the disk would
 * take half of their time. All of them are durable, and their bytes do not change.
 */
import { LINE_FEED } from "../log/lines.ts";

const BYTES_MAX = 1024 * 1024;
const BATCHES_MAX = 256;

export class RecentBatches {
  readonly #batches: { readonly start: number; readonly bytes: Buffer }[] = [];
  #bytes = 0;

  /** @param start where in the log the batch begins. */
  add(bytes: Buffer, start: number): void {
    this.#batches.push({ start, bytes });
    this.#bytes += bytes.length;
    while (this.#bytes > BYTES_MAX || this.#batches.length > BATCHES_MAX) {
      this.#bytes -= this.#batches.shift()?.bytes.length ?? 0;
    }
  }

  /** The line at an offset of the log; `undefined` if it is not here. */
  lineAt(offset: number): Buffer | undefined {
    const batch = this.#batches.findLast(({ start }) => start <= offset);
    const rest = batch?.bytes.subarray(offset - batch.start);
    return rest?.subarray(0, rest.indexOf(LINE_FEED));
  }
}
