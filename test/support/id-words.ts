/** An int64 and the two unsigned words that it is in two's complement. */
export function idOfWords(low: number, high: number): bigint {
  return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
}

export function wordsOfId(id: bigint): readonly [low: number, high: number] {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigInt64(0, id);
  return [view.getUint32(4), view.getUint32(0)];
}
