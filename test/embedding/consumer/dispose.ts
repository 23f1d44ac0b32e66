/** `await using`, where the compiler's library knows it. */
import { PlantServer, PlantStore, TokenRegistry } from "plant-store";

export async function main(data: string): Promise<string> {
  await using plants = await PlantStore.open(data);
  using tokens = await TokenRegistry.open(data);
  await using server = await PlantServer.start({ plants, tokens, port: 0 });
  return server.url;
}
