/** A line of a log that is not what it should be, told to the person who has to look at it. */
import { PlantStoreError } from "../core/errors.ts";

/** Where a line stands; without its number where that would have to be counted from the start. */
export interface LinePlace {
  readonly offset: number;
  readonly line?: number;
}

/**
 * @param fault what is wrong with the line, and what to do about it.
 * @returns a `corruption` that names path, line and byte offset.
 */
export function lineError(
  path: string,
  { line, offset }: LinePlace,
  fault: string,
  cause?: unknown,
): PlantStoreError {
  return new PlantStoreError(
    "corruption",
    `Cannot read "${path}": ${line === undefined ? "" : `line ${line}, `}byte offset ${offset}: ${fault}`,
    { cause },
  );
}
