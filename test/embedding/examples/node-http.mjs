/** The plant store beside other routes in a plain node:http server, with a log of its requests. */
import { subscribe } from "node:diagnostics_channel";
import { createServer } from "node:http";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const data = process.env.DATA ?? "./data";
const plants = await PlantStore.open(data);
const tokens = await TokenRegistry.open(data);
const garden = createRequestListener({ plants, tokens, basePath: "/garden" });

subscribe("plant-store:request", ({ method, path, status, token = "nobody" }) => {
  process.stdout.write(`${method} ${path} ${status} ${token}\n`);
});

const server = createServer((req, res) => {
  if (req.url.startsWith("/garden/")) garden(req, res);
  else res.end("hello");
});
server.listen(process.env.PORT ?? 8080, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});

process.once("SIGTERM", () => {
  server.close(async () => {
    tokens.close();
    await plants.close();
  });
});
