/** What a create comes to whose id is taken: the same plant again, or another one. */
import { PlantStoreError } from "../core/errors.ts";
import { isSamePlant, type NewPlant } from "../core/plant.ts";
import type { CreateOutcome } from "../core/services.ts";

/** @throws PlantStoreError `conflict`. */
export function judgeRepeat(stored: NewPlant, repeated: NewPlant): CreateOutcome {
  if (isSamePlant(stored, repeated)) return "replayed";
  throw new PlantStoreError(
    "conflict",
    `Cannot create plant ${repeated.id}: the id belongs to a plant with another name or tag`,
  );
}
