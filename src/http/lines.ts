/**
 * The lines of plants in the canonical form: those of a store that has lines, else encoded here. A list is
 * slices of whole lines, of which the first ones are wanted.
 */
import { PlantStoreError } from "../core/errors.ts";
import { encodeLines, encodeNewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";

const LINE_FEED = 0x0a;

/** An empty slice means that work found no plant. */
export type Slices = AsyncGenerator<Uint8Array, undefined>;

/**
 * The line of one plant, without its line feed.
 *
 * @throws PlantStoreError `unknown_plant`, and as `PlantService.get`.
 */
export async function readLine(plants: PlantService, id: bigint): Promise<Uint8Array> {
  const found = await (plants.getLine === undefined ? plants.get(id) : plants.getLine(id));
  if (found === undefined) {
    throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
  }
  return "id" in found ? Buffer.from(encodeNewPlant(found)) : found;
}

/** The first lines of a list: up to a number of them, or until they have a number of bytes. */
export class FirstLines {
  count = 0;
  bytes = 0;
  /** Whether a line came that is not wanted. */
  hasMore = false;
  readonly countMax: number;
  readonly #bytesMax: number;

  constructor(countMax: number, bytesMax = Number.POSITIVE_INFINITY) {
    this.countMax = countMax;
    this.#bytesMax = bytesMax;
  }

  /** Returns the lines of a slice that are wanted. */
  take(slice: Uint8Array): Uint8Array {
    let end = 0;
    while (end < slice.length && this.count < this.countMax && this.bytes < this.#bytesMax) {
      const start = end;
      end = slice.indexOf(LINE_FEED, start) + 1;
      this.count++;
      this.bytes += end - start;
    }
    this.hasMore = end < slice.length;
    return slice.subarray(0, end);
  }
}

/**
 * @param wanted all lines if it is absent; it takes note of the slices that were yielded.
 * @throws Error if the store yields a slice that does not end with a line feed, and as `PlantService.list`.
 */
export async function* sliceLines(
  plants: PlantService,
  after: bigint | undefined,
  wanted?: FirstLines,
): Slices {
  const lines =
    plants.listLines?.({ after }) ?? encodeLines(plants.list({ after }), wanted?.countMax);
  for await (const slice of lines) {
    if ((slice.at(-1) ?? LINE_FEED) !== LINE_FEED) {
      throw new Error("listLines: expected slices of whole lines, got one without its line feed");
    }
    yield wanted === undefined ? slice : wanted.take(slice);
    if (wanted?.hasMore === true) break;
  }
}
