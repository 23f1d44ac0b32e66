/** Plants as the lines that a store passes on. */
import { encodeNewPlant } from "../../src/core/plant.ts";
import type { NewPlant } from "../../src/index.ts";

/** FAKE: the reads of a store without plants. */
export const NO_READS = {
  getLine: async (): Promise<Uint8Array | undefined> => undefined,
  async *listLines(): AsyncGenerator<Uint8Array> {},
};

const SLICE_CHARACTERS = 32 * 1024;

/** Slices of whole lines, as a store yields them. */
export async function* encodeLines(plants: AsyncIterable<NewPlant>): AsyncGenerator<Uint8Array> {
  let slice = "";
  for await (const plant of plants) {
    slice += `${encodeNewPlant(plant)}\n`;
    if (slice.length < SLICE_CHARACTERS) continue;
    yield Buffer.from(slice);
    slice = "";
  }
  if (slice !== "") yield Buffer.from(slice);
}

/** The plants of slices of lines. */
export async function linesOf(slices: AsyncIterable<Uint8Array>): Promise<string[]> {
  let text = "";
  for await (const slice of slices) text += Buffer.from(slice).toString();
  return text.split("\n").slice(0, -1);
}
