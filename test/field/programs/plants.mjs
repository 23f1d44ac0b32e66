/**
 * The library in a runtime: our own server, a mounted listener, and calls without HTTP. Prints where
 * it listens as a line of JSON, and ends when its standard input does.
 */
import { createServer } from "node:http";
import {
  createRequestListener,
  createToken,
  PlantServer,
  PlantStore,
  TokenRegistry,
} from "plant-store";

const data = process.env.DATA;
const token = await createToken(data, { name: "field", scopes: ["write", "read"] });
const plants = await PlantStore.open(data);
const tokens = await TokenRegistry.open(data);
await plants.create({ id: -9223372036854775808n, name: "Färn\ud800", tag: "" });
const { name, tag } = await plants.get(-9223372036854775808n);
if (name !== "Färn\ud800" || tag !== "") throw new Error(`got ${name}, ${tag}`);

const own = await PlantServer.start({ port: 0, plants, tokens });
const mounted = createServer(createRequestListener({ plants, tokens }));
await new Promise((resolve) => mounted.listen(0, "127.0.0.1", resolve));
const urls = [own.url, `http://127.0.0.1:${mounted.address().port}`];
console.log(JSON.stringify({ urls, token }));

for await (const _ of process.stdin);
await own.close();
mounted.close();
mounted.closeAllConnections();
tokens.close();
await plants.close();
