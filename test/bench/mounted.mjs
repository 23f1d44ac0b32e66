/** The request listener mounted in a plain `node:http` server. Usage: node mounted.mjs DIST DATA_DIRECTORY */
import { createServer } from "node:http";
import path from "node:path";

const [dist, data] = process.argv.slice(2);
const { createRequestListener, PlantStore, TokenRegistry } = await import(
  path.resolve(dist, "index.js")
);
const plants = await PlantStore.open(data);
const tokens = await TokenRegistry.open(data);
const server = createServer(createRequestListener({ plants, tokens }));
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});
