/**
 * A hash of ids that nobody can choose collisions for.
 *
 * Tabulation hashing: each byte of the id picks a word of a table of random
 * words, and the words are combined with XOR. With linear probing it gives
 * constant expected time for any set of ids that was chosen without knowing
 * the tables (Patrascu and Thorup, "The Power of Simple Tabulation Hashing",
 * STOC '11). The tables come from a secret seed; they are small enough to stay
 * in the first cache.
 */
import { createCipheriv } from "node:crypto";

/** Of a seed: a key of AES-256. */
export const SEED_BYTES = 32;

const ID_BYTES = 8;
const WORDS = ID_BYTES * 256;

export class IdHash {
  readonly #words: Int32Array;

  /** @param seed `SEED_BYTES` random bytes; the same ones make the same hash. */
  constructor(seed: Uint8Array) {
    const cipher = createCipheriv("aes-256-ctr", seed, Buffer.alloc(16));
    const bytes = cipher.update(Buffer.alloc(WORDS * 4));
    this.#words = new Int32Array(WORDS);
    for (let word = 0; word < WORDS; word++) this.#words[word] = bytes.readInt32LE(word * 4);
  }

  /** The hash of an id given as two 32-bit halves: a signed 32-bit number. */
  of(low: number, high: number): number {
    const words = this.#words;
    return (
      (words[low & 0xff] as number) ^
      (words[0x100 | ((low >>> 8) & 0xff)] as number) ^
      (words[0x200 | ((low >>> 16) & 0xff)] as number) ^
      (words[0x300 | (low >>> 24)] as number) ^
      (words[0x400 | (high & 0xff)] as number) ^
      (words[0x500 | ((high >>> 8) & 0xff)] as number) ^
      (words[0x600 | ((high >>> 16) & 0xff)] as number) ^
      (words[0x700 | (high >>> 24)] as number)
    );
  }
}
