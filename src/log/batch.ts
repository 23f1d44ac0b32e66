/**
 * Records on their way to the disk together: the bytes of one write, and who
 * is told what became of each.
 *
 * A record is made bytes when it comes, so its line is held as bytes alone while it
 * waits: what thousands of creates hold as text, the garbage collector copies. When a batch is
 * written, and what its end means, is the writer's.
 */
import type { PlantStoreError } from "../core/errors.ts";
import { LINE_FEED } from "./format.ts";

/** Whoever had a record appended; told once, and must not throw. */
export interface Waiter {
  /** The whole record is on disk, at this byte offset. */
  durable(offset: number): void;
  failed(error: PlantStoreError): void;
}

/** Most batches find room in so much. */
const ROOM_BYTES = 16 * 1024;

export class Batch {
  readonly #bytesMax: number;
  #buffer: Buffer;
  #size = 0;
  readonly #waiters: Waiter[] = [];
  /** Where the record of each of them ends. */
  readonly #ends: number[] = [];

  /** @param bytesMax it is full once it holds so many, so it is at most one record longer. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#buffer = Buffer.allocUnsafeSlow(Math.min(ROOM_BYTES, bytesMax));
  }

  get isFull(): boolean {
    return this.#size >= this.#bytesMax;
  }

  get records(): number {
    return this.#waiters.length;
  }

  /** All of it, as it goes to the disk. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  /**
   * Adds a record, or throws and adds nothing.
   *
   * @param bytes the length of the line: of the record in UTF-8 and its line feed.
   * @throws RangeError where there is no memory for it.
   */
  add(record: string, bytes: number, waiter: Waiter): void {
    const end = this.#size + bytes;
    if (end > this.#buffer.length) this.#grow(end);
    const written = this.#buffer.write(record, this.#size);
    // What stands in a new buffer is anything the process ever held.
    if (written !== bytes - 1) throw new RangeError(`wrote ${written} of ${bytes - 1} bytes`);
    this.#buffer[end - 1] = LINE_FEED;
    this.#size = end;
    this.#waiters.push(waiter);
    this.#ends.push(end);
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
    let offset = start;
    for (let at = 0; at < this.#waiters.length; at++) {
      (this.#waiters[at] as Waiter).durable(offset);
      offset = start + (this.#ends[at] as number);
    }
  }

  fail(error: PlantStoreError): void {
    for (const waiter of this.#waiters) waiter.failed(error);
  }
}
