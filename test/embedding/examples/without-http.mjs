/** The plant store as a library: create, get, list. Run it twice: the second time nothing is new. */
import { PlantStore, PlantStoreError } from "plant-store";

const plants = await PlantStore.open(process.env.DATA ?? "./data");
try {
  const fern = { id: 9007199254740993n, name: "Fern", tag: "indoor" };
  process.stdout.write(`${await plants.create(fern)}\n`);
  try {
    await plants.create({ ...fern, name: "Ivy" });
  } catch (error) {
    if (!(error instanceof PlantStoreError && error.code === "conflict")) throw error;
    process.stdout.write(`${error.message}\n`);
  }
  process.stdout.write(`${(await plants.get(fern.id))?.name}\n`);
  for await (const { id, name, tag = "no tag" } of plants.list()) {
    process.stdout.write(`${id} ${name}, ${tag}\n`);
  }
} finally {
  await plants.close();
}
