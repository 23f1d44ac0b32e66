/** The plant store under a prefix of a Fastify 5 application. */
import fastify from "fastify";
import { createRequestListener, PlantStore, TokenRegistry } from "plant-store";

const data = process.env.DATA ?? "./data";
const plants = await PlantStore.open(data);
const tokens = await TokenRegistry.open(data);
const listener = createRequestListener({ plants, tokens, basePath: "/garden" });

const app = fastify();
app.get("/", () => "hello");
app.post("/echo", (request) => request.body);
app.register(
  async (garden) => {
    // The first hook runs before Fastify reads the body; what is hijacked is the listener's.
    garden.addHook("onRequest", (request, reply) => {
      reply.hijack();
      listener(request.raw, reply.raw);
    });
    garden.all("/*", () => {}); // a hook needs a route
  },
  { prefix: "/garden" },
);
app.addHook("onClose", async () => {
  tokens.close();
  await plants.close();
});

const url = await app.listen({ port: Number(process.env.PORT ?? 8080), host: "127.0.0.1" });
process.stdout.write(`listening on ${url}\n`);

process.once("SIGTERM", () => app.close());
