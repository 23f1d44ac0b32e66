/**
 * A quick look at the lines of a block: which of them are plants, and of what id.
 *
 * Nearly every line is written as the store writes it, and is recognised where
 * it stands, without an object or a string of its own. Every other line goes
 * to a visitor, who judges it by the full rule (core/plant); what is recognised
 * here is a plant by that rule too.
 */
import { isUtf8 } from "node:buffer";
import { EncodedPlantFinder } from "../core/encoded-plant.ts";
import { LINE_FEED } from "../log/format.ts";
import { type LineBlock, type LineVisitor, visitLines } from "../log/reader.ts";

/**
 * Told of a line that is a plant: where in the block it starts and its line feed stands, its
 * number, and the two signed words of its id. False has the line visited all the same.
 */
export type PlantTaker = (
  start: number,
  end: number,
  line: number,
  idLow: number,
  idHigh: number,
) => boolean;

/** Goes through the lines of a block in order, each to one of the two. */
export function checkLines(block: LineBlock, take: PlantTaker, visit: LineVisitor): void {
  const { bytes } = block;
  const finder = new EncodedPlantFinder(bytes);
  const takeLine = (start: number, line: number) => {
    const end = finder.find(start);
    if (bytes[end] !== LINE_FEED) return -1;
    return take(start, end, line, finder.idLow, finder.idHigh) ? end : -1;
  };
  // One look for all: no character of several bytes holds a line feed. Where they are not UTF-8,
  // the visitor finds the line that is to blame.
  visitLines(block, visit, isUtf8(bytes) ? takeLine : undefined);
}
