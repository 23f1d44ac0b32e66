/** A program of a page, to be compiled: every part of the client. */
import * as store from "plant-store/client";

export async function main(url: string, options: store.ClientOptions): Promise<string[]> {
  const client = new store.PlantClient(url, { deadlineMs: 5000, fetch, ...options });
  const stop: store.CallOptions = { signal: new AbortController().signal };
  const plant: store.Plant = await client.create({ id: 7n, name: "Fern" }, stop);
  const read: store.NewPlant | undefined = await client.get(7, stop);
  const lines = [plant.name, read?.tag ?? ""];
  try {
    for await (const listed of client.list({ after: 7n, ...stop })) {
      lines.push(store.encodeNewPlant(listed));
    }
  } catch (error) {
    if (!(error instanceof store.PlantStoreError)) throw error;
    lines.push(`${error.code} ${error.number} ${error.requestId}`);
  }
  return lines;
}
