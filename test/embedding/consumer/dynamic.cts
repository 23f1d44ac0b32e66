/** A CommonJS program for a compiler that lets no such program require() an ES module. */
import type { PlantStore } from "plant-store" with { "resolution-mode": "import" };

export async function open(data: string): Promise<PlantStore> {
  const library = await import("plant-store");
  return library.PlantStore.open(data);
}
