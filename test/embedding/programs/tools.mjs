/**
 * Sends requests to the mounted listener with the tool that the argument names, as tests of an
 * application do, and prints the status and the body of each answer.
 */
import { EventEmitter, once } from "node:events";
import express from "express";
import fastify from "fastify";
import inject from "light-my-request";
import mocks from "node-mocks-http";
import { createRequestListener, PlantStore } from "plant-store";
import request from "supertest";

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

const injectBy = (by) => async (method, url, headers, payload) => {
  const { statusCode, body } = await by({ method, url, headers, payload });
  return [statusCode, body];
};

const TOOLS = {
  fastify: injectBy((options) => app.inject(options)),
  "light-my-request": injectBy((options) => inject(listener, options)),
  async supertest(method, url, headers, body) {
    const sending = request(express().use(listener))[method.toLowerCase()](url).set(headers);
    const { status, text } = await sending.buffer(true).send(body);
    return [status, text];
  },
  async "node-mocks-http"(method, url, headers, body) {
    const { req, res } = mocks.createMocks(
      { method, url, headers },
      { eventEmitter: EventEmitter },
    );
    Object.assign(res, { req }); // as Express does
    const ended = once(res, "end");
    listener(req, res);
    if (body !== undefined) req.send(body);
    await ended;
    return [res.statusCode, res._getData() || `${res._getBuffer()}`];
  },
};

const send = TOOLS[process.argv[2]];
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
