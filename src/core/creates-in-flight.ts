/**
 * Creates in flight, merged by id.
 *
 * Invariant. Of several creates of one id at the same time, one stores and the others share its
 * outcome: an earlier answer would acknowledge a plant that is not durable.
 */
import { PlantStoreError } from "./errors.ts";
import { isSamePlant, type NewPlant } from "./plant.ts";
import type { CreateOutcome } from "./services.ts";
import { ShortLivedMap } from "./short-lived-map.ts";

/**
 * Makes a plant durable unless its id is taken. Resolves with the plant that has the id: the same
 * object if it was stored now, else the plant that was there before.
 */
type StorePlant = (plant: NewPlant) => Promise<NewPlant>;

export class CreatesInFlight {
  readonly #store: StorePlant;
  /** The plants that are being stored, by their ids. */
  readonly #storing = new ShortLivedMap<bigint, Promise<NewPlant>>();

  constructor(store: StorePlant) {
    this.#store = store;
  }

  /**
   * Stores a plant, or waits for the create of the same id that is in flight.
   *
   * @throws PlantStoreError `conflict` if the id belongs to another plant. Rejects like the create
   * in flight if that create fails.
   */
  async create(plant: NewPlant): Promise<CreateOutcome> {
    const { id } = plant;
    const inFlight = this.#storing.get(id);
    if (inFlight !== undefined) return judgeRepeat(await inFlight, plant);
    const storing = this.#store(plant);
    this.#storing.add(id, storing);
    try {
      const stored = await storing;
      return stored === plant ? "created" : judgeRepeat(stored, plant);
    } finally {
      this.#storing.delete(id);
    }
  }
}

function judgeRepeat(stored: NewPlant, repeated: NewPlant): CreateOutcome {
  if (isSamePlant(stored, repeated)) return "replayed";
  throw conflict(repeated.id);
}

/** @internal */
export function conflict(id: bigint): PlantStoreError {
  return new PlantStoreError(
    "conflict",
    `Cannot create plant ${id}: the id belongs to a plant with another name or tag`,
  );
}
