// In Fastify 5: the listener takes the request over in a hook, before Fastify reads the body.
import fastify from "fastify";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const plants = await PlantStore.open("./data");
const tokens = await TokenRegistry.open("./data");
const listener = createRequestListener({ plants, tokens, basePath: "/garden" });

const app = fastify();
await app.register(
  async (garden) => {
    garden.addHook("onRequest", async (request, reply) => {
      reply.hijack();
      listener(request.raw, reply.raw);
    });
    garden.all("/*", async () => {}); // a hook needs a route
  },
  { prefix: "/garden" },
);
app.addHook("onClose", async () => {
  tokens.close();
  await plants.close();
});

const url = await app.listen({ port: Number(process.env.PORT ?? 8080) });
console.log(`listening on ${url}/garden`);
process.once("SIGTERM", () => app.close());
