/** Injects a create with a bad token into a Fastify application, prints the status, and closes nothing. */
import fastify from "fastify";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const plants = await PlantStore.open(process.env.DATA);
const tokens = await TokenRegistry.open(process.env.DATA);
const listener = createRequestListener({ plants, tokens });
const app = fastify();
app.addHook("onRequest", (request, reply) => {
  reply.hijack();
  listener(request.raw, reply.raw);
});
app.all("/*", () => {});

const headers = { authorization: "Bearer pst_wrong", "content-type": "application/json" };
const answer = await app.inject({ method: "POST", url: "/plants", headers, payload: "{}" });
process.stdout.write(`${answer.statusCode}\n`);
