/**
 * How long a record may be: one line of a log. A database refuses longer plants, too, so that they can
 * be moved back.
 */
import { PlantStoreError } from "./errors.ts";

/** The longest line that is written, or completed by a start; with its line feed. @internal */
export const RECORD_BYTES_MAX = 64 * 1024 * 1024;

/** @throws PlantStoreError `body_too_large` if the line of a plant is longer. @internal */
export function assertRecordSize(bytes: number): void {
  if (bytes <= RECORD_BYTES_MAX) return;
  throw new PlantStoreError(
    "body_too_large",
    `The plant: expected at most ${RECORD_BYTES_MAX} bytes as a line of a log, got ${bytes}`,
  );
}
