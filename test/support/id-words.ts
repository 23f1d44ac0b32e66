/** An int64 and the two signed words that it is in two's complement. */
export function idOfWords(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt.asUintN(32, BigInt(low));
}

export function wordsOfId(id: bigint): readonly [low: number, high: number] {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigInt64(0, id);
  return [view.getInt32(4), view.getInt32(0)];
}
