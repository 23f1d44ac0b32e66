/** Creates plants through the client, some at a time, lists them, and prints both as lines of JSON. */
import { encodeNewPlant, PlantClient } from "plant-store/client";

const [url, token, count] = process.argv.slice(2);
const client = new PlantClient(url, { token });
const answered = [];
let next = 2n ** 53n;
const end = next + BigInt(count);

async function work() {
  while (next < end) {
    const plant = { id: next++, name: "🌱 Färn" };
    const { name } = await client.create(plant);
    answered.push(encodeNewPlant({ id: plant.id, name }));
  }
}

await Promise.all([work(), work(), work(), work()]);
const listed = [];
for await (const plant of client.list()) listed.push(encodeNewPlant(plant));
console.log(JSON.stringify({ answered, listed }));
