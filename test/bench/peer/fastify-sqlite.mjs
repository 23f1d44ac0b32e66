/**
 * A peer: fastify over better-sqlite3, as in production: WAL, synchronous=FULL (an fdatasync of the WAL for each commit),
 * schemas for body and answer, a check of the token. A transaction holds every request of one turn of the event loop.
 *
 * Usage: node fastify-sqlite.mjs DIRECTORY
 */
import { createHash, timingSafeEqual } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import Fastify from "fastify";

const [directory] = process.argv.slice(2);
fs.mkdirSync(directory, { recursive: true });
const database = new Database(path.join(directory, "plants.db"));
database.pragma("journal_mode = WAL");
database.pragma("synchronous = FULL");
if (database.pragma("journal_mode", { simple: true }) !== "wal") throw new Error("no WAL");
if (database.pragma("synchronous", { simple: true }) !== 2) throw new Error("not FULL");
database.exec("CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)");
const insert = database.prepare(
  "INSERT INTO plants (id, name, tag) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
);
const find = database.prepare("SELECT name, tag FROM plants WHERE id = ?");
let queue = [];

/** Stores a batch; returns for each plant whether it may be answered with 200. */
const commit = database.transaction((batch) =>
  batch.map(({ id, name, tag = null }) => {
    if (insert.run(BigInt(id), name, tag).changes === 1) return true;
    const present = find.get(BigInt(id));
    return present.name === name && present.tag === tag;
  }),
);

function commitTurn() {
  const batch = queue;
  queue = [];
  const stored = commit(batch.map(({ plant }) => plant));
  for (const [at, { resolve }] of batch.entries()) resolve(stored[at]);
}

function create(plant) {
  return new Promise((resolve) => {
    if (queue.length === 0) setImmediate(commitTurn);
    queue.push({ plant, resolve });
  });
}

const hash = (token) => createHash("sha256").update(token).digest();
const TOKEN_HASH = hash("Bearer any"); // what the bench sends

const properties = { name: { type: "string" }, tag: { type: "string" } };
const schema = {
  body: {
    type: "object",
    required: ["id", "name"],
    properties: { id: { type: "integer" }, ...properties },
  },
  response: { 200: { type: "object", properties } },
};
const app = Fastify();
app.addHook("onRequest", async ({ headers }, reply) => {
  if (timingSafeEqual(hash(headers.authorization ?? ""), TOKEN_HASH)) return;
  return reply.code(401).send({ error: 40102, message: "expected a live token" });
});
app.post("/plants", { schema }, async ({ body }, reply) => {
  if (await create(body)) return { name: body.name, tag: body.tag };
  return reply.code(400).send({ error: 40006, message: "the id belongs to another plant" });
});
process.stdout.write(`listening on ${await app.listen({ port: 0, host: "127.0.0.1" })}\n`);
process.once("SIGTERM", () => process.exit(0));
