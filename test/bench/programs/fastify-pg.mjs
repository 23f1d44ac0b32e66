/**
 * A peer of the database store: fastify 5 over a pool of `pg`, one INSERT for each request, as one
 * would write it, with the contract of the other peers. Usage: node fastify-pg.mjs URL
 */
import { createRequire } from "node:module";
import { isAllowed, isSame, REFUSALS, requestId } from "../peers/contract.mjs";

const require = createRequire(new URL("../../postgres/package.json", import.meta.url));
const Fastify = require("fastify");
const { Pool } = require("pg");

const pool = new Pool({ connectionString: process.argv[2], max: 20 });
const INSERT = {
  name: "insert",
  text: `INSERT INTO peer_plants (id, name, tag) VALUES ($1, $2, $3)
    ON CONFLICT (id) DO NOTHING RETURNING id`,
};
const FIND = { name: "find", text: "SELECT id, name, tag FROM peer_plants WHERE id = $1" };

async function create({ id, name, tag }) {
  const { rowCount } = await pool.query({ ...INSERT, values: [id, name, tag ?? null] });
  if (rowCount === 1) return true;
  const { rows } = await pool.query({ ...FIND, values: [id] });
  return isSame(rows[0], { name, tag });
}

const properties = { name: { type: "string" }, tag: { type: "string" } };
const plant = { type: "object", properties: { id: { type: "integer" }, ...properties } };
const created = {
  body: { ...plant, required: ["id", "name"] },
  response: { 200: { type: "object", properties } },
};
const refuse = (reply, { status, body }) => reply.code(status).send(body);
const app = Fastify({ genReqId: ({ headers }) => requestId(headers) });
app.addHook("onRequest", async (req, reply) => {
  reply.header("x-request-id", req.id);
  if (isAllowed(req.headers.authorization)) return;
  return refuse(reply, REFUSALS.token);
});
app.setErrorHandler((_, __, reply) => refuse(reply, REFUSALS.plant));
app.post("/plants", { schema: created }, async ({ body }, reply) => {
  if (await create(body)) return { name: body.name, tag: body.tag };
  return refuse(reply, REFUSALS.conflict);
});
app.get("/plants/:id", { schema: { response: { 200: plant } } }, async ({ params }) => {
  const { rows } = await pool.query({ ...FIND, values: [params.id] });
  return { ...rows[0], id: Number(rows[0].id) };
});
const url = await app.listen({ port: 0, host: "127.0.0.1" });
process.stdout.write(`listening on ${url}\n`);
process.on("message", () => process.send({}));
process.channel?.unref();
process.once("SIGTERM", () => process.exit(0));
