// Creates a plant, and lists all: URL=http://127.0.0.1:8080 TOKEN=pst_… node client.js
import { encodeNewPlant, PlantClient, PlantStoreError } from "plant-store/client";

const client = new PlantClient(process.env.URL, { token: process.env.TOKEN });
try {
  await client.create({ id: 9007199254740993n, name: "Fern", tag: "indoor" });
} catch (error) {
  if (!(error instanceof PlantStoreError)) throw error;
  console.error(error.code, error.number, error.message);
}
for await (const plant of client.list()) console.log(encodeNewPlant(plant));
