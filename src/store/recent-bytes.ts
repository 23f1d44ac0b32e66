/**
 * The newest bytes of a log in memory, a MiB or two: most repeats follow their create within seconds, and a read of
 * the disk would take half of their time. All of them are durable.
 */
import { LINE_FEED } from "../log/lines.ts";

const RECENT_BYTES = 1024 * 1024;

export class RecentBytes {
  readonly #bytes = Buffer.allocUnsafeSlow(2 * RECENT_BYTES);
  #start = 0;
  #end = 0;

  /** @param start where in the log they begin. */
  add(bytes: Buffer, start: number): void {
    if (start !== this.#end || bytes.length > RECENT_BYTES) this.#start = this.#end = start;
    if (bytes.length > RECENT_BYTES) return;
    if (start + bytes.length - this.#start > this.#bytes.length) {
      this.#bytes.copyWithin(0, start - RECENT_BYTES - this.#start, start - this.#start);
      this.#start = start - RECENT_BYTES;
    }
    bytes.copy(this.#bytes, start - this.#start);
    this.#end = start + bytes.length;
  }

  /** A copy of the line at an offset; `undefined` if it is not here. */
  lineAt(offset: number): Buffer | undefined {
    if (offset < this.#start || offset >= this.#end) return undefined;
    const at = offset - this.#start;
    return Buffer.from(this.#bytes.subarray(at, this.#bytes.indexOf(LINE_FEED, at)));
  }
}
