/**
 * The request listener mounted in a plain `node:http` server, as an embedder
 * would do it. Usage: node mounted.mjs DIST DATA_DIRECTORY
 */
import { createServer } from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [dist, data] = process.argv.slice(2);
const library = pathToFileURL(path.resolve(dist, "index.js")).href;
const { createRequestListener, PlantStore, TokenRegistry } = await import(library);

const plants = await PlantStore.open(data);
const tokens = await TokenRegistry.open(data);
const server = createServer(createRequestListener({ plants, tokens }));
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});

process.once("SIGTERM", async () => {
  server.closeAllConnections();
  server.close();
  tokens.close();
  await plants.close();
});
