/**
 * Records on their way to the disk together: the bytes of one write, and one outcome for all.
 *
 * A record is encoded when it is added, so that thousands of waiting creates hold no text for the
 * garbage collector to copy. When a batch is written, and how, is not known here.
 */
import type { PlantStoreError } from "../core/errors.ts";
import { LINE_FEED } from "./format.ts";

/** Most batches find room in so much. */
const ROOM_BYTES = 16 * 1024;

export class Batch {
  readonly #bytesMax: number;
  #buffer: Buffer;
  #size = 0;
  #records = 0;
  /** The byte offset of the batch in the log: resolves once all of it is on disk, or rejects. */
  readonly start: Promise<number>;
  #resolve: (start: number) => void = () => {};
  #reject: (error: PlantStoreError) => void = () => {};

  /** @param bytesMax it is full once it holds so many, so it is at most one record longer. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#buffer = Buffer.allocUnsafeSlow(Math.min(ROOM_BYTES, bytesMax));
    this.start = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get isFull(): boolean {
    return this.#size >= this.#bytesMax;
  }

  get records(): number {
    return this.#records;
  }

  /** All of it, as it goes to the disk. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  /**
   * Adds a record, or throws and adds nothing.
   *
   * @param bytes the length of the line: of the record in UTF-8 and its line feed.
   * @returns where in the batch the record starts.
   * @throws RangeError if there is no memory for it.
   */
  add(record: string, bytes: number): number {
    const at = this.#size;
    const end = at + bytes;
    if (end > this.#buffer.length) this.#grow(end);
    const written = this.#buffer.write(record, at);
    // What stands in a new buffer is anything the process ever held.
    if (written !== bytes - 1) throw new RangeError(`wrote ${written} of ${bytes - 1} bytes`);
    this.#buffer[end - 1] = LINE_FEED;
    this.#size = end;
    this.#records++;
    return at;
  }

  /** Twofold, but to no more than a full batch and its last record need. */
  #grow(bytesMin: number): void {
    const room = Math.max(bytesMin, Math.min(2 * this.#buffer.length, this.#bytesMax));
    const buffer = Buffer.allocUnsafeSlow(room);
    this.bytes.copy(buffer);
    this.#buffer = buffer;
  }

  /** @param start where the batch stands in the log. */
  acknowledge(start: number): void {
    this.#resolve(start);
  }

  fail(error: PlantStoreError): void {
    this.#reject(error);
  }
}
