/** Ids in the form in which an index takes them. */
import { createCipheriv } from "node:crypto";

/** An int64, and its two signed words in two's complement. */
export function idOfWords(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt.asUintN(32, BigInt(low));
}

export function wordsOfId(id: bigint): readonly [low: number, high: number] {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigInt64(0, id);
  return [view.getInt32(4), view.getInt32(0)];
}

/** Words for the hash of an index that are the same in every run; each byte gives other words. */
export function hashWordsOf(byte: number): Int32Array {
  const cipher = createCipheriv("aes-256-ctr", Buffer.alloc(32, byte), Buffer.alloc(16));
  const bytes = cipher.update(Buffer.alloc(8 * 256 * 4));
  return Int32Array.from({ length: 8 * 256 }, (_, word) => bytes.readInt32LE(word * 4));
}
