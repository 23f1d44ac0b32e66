/** The plant store under a prefix of an Express 5 application: before the body parser, never after it. */
import express from "express";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const data = process.env.DATA ?? "./data";
const plants = await PlantStore.open(data);
const tokens = await TokenRegistry.open(data);

const app = express();
app.use("/garden", createRequestListener({ plants, tokens })); // Express takes the prefix away
app.use(express.json());
app.post("/echo", (req, res) => res.json(req.body));
app.get("/", (_req, res) => res.send("hello"));

const server = app.listen(process.env.PORT ?? 8080, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});

process.once("SIGTERM", () => {
  server.close(async () => {
    tokens.close();
    await plants.close();
  });
});
