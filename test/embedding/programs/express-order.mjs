/**
 * An Express application with the body parser that the argument names in front of the plant store.
 * Usually that is a mistake; the test shows its effect. Node prints each failure as a warning.
 */
import express from "express";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const PARSERS = {
  none: [],
  json: [express.json()],
  raw: [express.raw({ type: "*/*" })],
  text: [express.text({ type: "*/*" })],
  urlencoded: [express.urlencoded()],
};

const plants = await PlantStore.open(process.env.DATA);
const tokens = await TokenRegistry.open(process.env.DATA);
const app = express();
app.use(...PARSERS[process.argv[2]], createRequestListener({ plants, tokens }));

const server = app.listen(process.env.PORT, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});

process.once("SIGTERM", () => {
  server.close(async () => {
    tokens.close();
    await plants.close();
  });
});
