/**
 * The one operation, `POST /plants` (interface 4.1): NewPlant in, Plant out.
 *
 * Answers only after the store says the plant is durable. A repeat of a stored
 * plant gets the same answer, so a client may retry after a lost one.
 */
import { encodePlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { okReply, type Reply } from "./reply.ts";

/** @throws PlantStoreError from `parseNewPlant` and `PlantService.create`. */
export async function createPlant(plants: PlantService, body: Buffer): Promise<Reply> {
  const plant = parseNewPlant(body);
  await plants.create(plant);
  return okReply(encodePlant(plant));
}
