/**
 * Injects requests into the mounted listener, as tests of an application do, and prints the status and
 * the body of each response.
 */
import fastify from "fastify";
import { createRequestListener, PlantStore } from "plant-store";

const plants = await PlantStore.open(process.env.DATA);
const garden = { name: "garden", scopes: ["write", "read"] };
const tokens = { verify: (token) => (token === "good" ? garden : undefined) };
const listener = createRequestListener({ plants, tokens });

const app = fastify();
app.addHook("onRequest", (request, reply) => {
  reply.hijack();
  listener(request.raw, reply.raw);
});
app.all("/*", () => {});

async function send(method, url, headers, payload) {
  const { statusCode, body } = await app.inject({ method, url, headers, payload });
  return [statusCode, body];
}

const plant = (id, length) => `{"id":${id},"name":"${"n".repeat(length)}"}`;
const headersOf = (token, body = "") => ({
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
  "content-length": `${body.length}`,
});

for (const [token, body] of [
  ["bad", plant(1, 20)],
  ["bad", plant(1, 70_000)],
  ["good", plant(1, 2_000_000)],
  ["good", plant(1, 70_000)],
  ["good", plant(2, 3)],
]) {
  const [status, text] = await send("POST", "/plants", headersOf(token, body), body);
  process.stdout.write(`${JSON.stringify([status, text])}\n`);
}
for (const accept of ["application/json", "application/x-ndjson"]) {
  const headers = { authorization: "Bearer good", accept };
  const [status, text] = await send("GET", "/plants?after=1", headers);
  process.stdout.write(`${JSON.stringify([status, text])}\n`);
}
await plants.close();
