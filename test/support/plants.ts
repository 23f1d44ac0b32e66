/** Plants as the lines that a store passes on. */

/** FAKE: the reads of a store without plants. */
export const NO_READS = {
  getLine: async (): Promise<Uint8Array | undefined> => undefined,
  async *listLines(): AsyncGenerator<Uint8Array> {},
};

/** The plants of slices of lines. */
export async function linesOf(slices: AsyncIterable<Uint8Array>): Promise<string[]> {
  let text = "";
  for await (const slice of slices) text += Buffer.from(slice).toString();
  return text.split("\n").slice(0, -1);
}
