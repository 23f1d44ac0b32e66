/** A program of a page, to be compiled: every part of the client, and every type by its name. */
import {
  type CallOptions,
  type ClientOptions,
  encodeNewPlant,
  type NewPlant,
  type Plant,
  PlantClient,
  PlantStoreError,
} from "plant-store/client";

export async function main(url: string, options: ClientOptions): Promise<string[]> {
  const client = new PlantClient(url, { deadlineMs: 5000, fetch: globalThis.fetch, ...options });
  const stop: CallOptions = { signal: new AbortController().signal };
  const plant: Plant = await client.create({ id: 7n, name: "Fern" }, stop);
  const read: NewPlant | undefined = await client.get(7n, stop);
  const lines = [plant.name, read?.tag ?? ""];
  try {
    for await (const listed of client.list({ after: 7n, ...stop }))
      lines.push(encodeNewPlant(listed));
  } catch (error) {
    if (!(error instanceof PlantStoreError)) throw error;
    lines.push(`${error.code} ${error.number} ${error.message}`);
  }
  return lines;
}
