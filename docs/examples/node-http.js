// The plant store below a path of your own server.
import { createServer } from "node:http";
import { createFirstToken, createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const plants = await PlantStore.open("./data");
const token = await createFirstToken("./data", { name: "first", scopes: ["write", "read"] });
const tokens = await TokenRegistry.open("./data");
const garden = createRequestListener({ plants, tokens, basePath: "/garden" });

const server = createServer((req, res) => {
  if (!server.listening) res.setHeader("Connection", "close"); // the server stops
  if (req.url?.startsWith("/garden/")) garden(req, res);
  else res.end("hello\n");
});
server.listen(process.env.PORT ?? 8080, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}/garden`;
  console.log(`listening on ${url}`);
  if (token !== undefined) console.log(`token: ${token}`);
});

process.once("SIGTERM", () => {
  server.close(async () => {
    tokens.close();
    await plants.close();
  });
});
