/** The plant store with compression() of every answer in front of it. */
import compression from "compression";
import express from "express";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const plants = await PlantStore.open(process.env.DATA);
const tokens = await TokenRegistry.open(process.env.DATA);
const app = express();
app.use(compression({ threshold: 0 }), createRequestListener({ plants, tokens }));

const server = app.listen(process.env.PORT, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});
