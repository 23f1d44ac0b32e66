/** A CommonJS program, which every supported Node lets require() the library. */
import library = require("plant-store");

export async function main(data: string): Promise<number> {
  const store: library.PlantStore = await library.PlantStore.open(data);
  try {
    return store.size;
  } finally {
    await store.close();
  }
}
