/** How long a log and how many its plants may be: what is under way beside them still fits. */
import { PlantStoreError } from "../core/errors.ts";
import { OFFSET_LIMIT } from "./id-entry.ts";

const LOG_BYTES_MAX = OFFSET_LIMIT - 2 ** 32;
const PLANTS_MAX = 2 ** 31;

/** @throws PlantStoreError `not_stored` if there is no room for another plant. */
export function requireRoom(logBytes: number, plants: number): void {
  if (logBytes < LOG_BYTES_MAX && plants < PLANTS_MAX) return;
  throw new PlantStoreError(
    "not_stored",
    "Cannot store it: the log is full (it has reached its greatest length or number of plants); " +
      "nothing was stored, and no retry will succeed",
  );
}
