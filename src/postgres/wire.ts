/**
 * What a server sends, cut into whole messages and checked before the driver parses them.
 *
 * Invariant. Bytes that are not PostgreSQL's protocol end their connection, and nothing else. The
 * driver believes every length: with wrong ones it throws in a listener of its socket, where nobody
 * catches, looks for the end of an error for ever, or fills the memory.
 */

import type net from "node:net";
import { RECORD_BYTES_MAX } from "../core/options.ts";
import { quote } from "../core/text.ts";

/** A type, and a length that counts itself. */
const HEADER_BYTES = 5;
/** A row has a plant in plain text, and its record if that text cannot hold it. */
const MESSAGE_BYTES_MAX = 3 * RECORD_BYTES_MAX;

/**
 * Destroys a stream if what it receives is malformed, or makes one of its listeners throw.
 *
 * @internal
 */
export function guard(stream: net.Socket): void {
  const { emit } = stream;
  const messages = new Messages();
  stream.emit = (event: string | symbol, ...values: unknown[]): boolean => {
    try {
      const given = event === "data" ? [messages.take(values[0] as Buffer)] : values;
      return Reflect.apply(emit, stream, [event, ...given]);
    } catch (cause) {
      const { message } = cause as Error;
      stream.destroy(new Error(`the server broke PostgreSQL's protocol: ${message}`, { cause }));
      return true;
    }
  };
}

class Messages {
  /** The beginning of a message, and how long it has to be before it is looked at again. */
  #parts: Buffer[] = [];
  #bytes = 0;
  #wantedBytes = HEADER_BYTES;
  /** Of the rows that follow. */
  #columns = Number.NaN;

  /** @returns the messages that are whole now. */
  take(chunk: Buffer): Buffer {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#wantedBytes) return Buffer.alloc(0);
    const bytes = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts);
    let at = 0;
    this.#wantedBytes = HEADER_BYTES;
    while (at + HEADER_BYTES <= bytes.length) {
      const size = 1 + bytes.readUInt32BE(at + 1);
      const isWhole = at + size <= bytes.length;
      const isPossible = size >= HEADER_BYTES && size <= MESSAGE_BYTES_MAX;
      if (!isPossible || (isWhole && !this.#isSound(bytes, at, at + size))) {
        const type = quote(String.fromCharCode(bytes[at] ?? 0));
        throw new Error(`a malformed message of type ${type} and ${size} bytes`);
      }
      if (!isWhole) {
        this.#wantedBytes = size;
        break;
      }
      at += size;
    }
    this.#parts = at < bytes.length ? [bytes.subarray(at)] : [];
    this.#bytes = bytes.length - at;
    return bytes.subarray(0, at);
  }

  /** Whether the parts of a message add up to it. */
  #isSound(bytes: Buffer, start: number, end: number): boolean {
    const type = String.fromCharCode(bytes[start] ?? 0);
    let at = start + HEADER_BYTES;
    if (type === "E" || type === "N") {
      // Each field is a letter and a text that ends with NUL; a NUL is last.
      while (at < end && bytes[at] !== 0) at = bytes.indexOf(0, at + 1) + 1 || end;
      return at === end - 1;
    }
    if (type !== "T" && type !== "D") return true;
    const columns = bytes.readInt16BE(at);
    if (type === "T") this.#columns = columns;
    if (columns < 0 || columns !== this.#columns) return false;
    if (type === "T") return true;
    at += 2;
    for (let left = columns; left > 0; left--) {
      const length = bytes.readInt32BE(at); // -1: the value is NULL
      if (length < -1) return false;
      at += 4 + Math.max(length, 0);
    }
    return at === end;
  }
}
