/**
 * A peer: fastify 5 over better-sqlite3, as one would run it in production:
 * WAL, synchronous=FULL (an fdatasync of the WAL for every commit), schemas for
 * body and answer, a bearer token. Usage: node fastify-sqlite.mjs DIRECTORY
 * turn|request, which says what a transaction holds: every request of one turn
 * of the event loop, or one request. Tells rows and commits over IPC.
 */
import path from "node:path";
import Database from "better-sqlite3";
import Fastify from "fastify";

const [directory, mode] = process.argv.slice(2);
const database = new Database(path.join(directory, "plants.db"));
database.pragma("journal_mode = WAL");
database.pragma("synchronous = FULL");
if (database.pragma("journal_mode", { simple: true }) !== "wal") throw new Error("no WAL");
if (database.pragma("synchronous", { simple: true }) !== 2) throw new Error("not FULL");
database.exec("CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)");
const insert = database.prepare("INSERT INTO plants (id, name, tag) VALUES (?, ?, ?)");
let commits = 0;
let queue = [];

const commit = database.transaction((batch) => {
  for (const { id, name, tag } of batch) insert.run(BigInt(id), name, tag ?? null);
});

function commitTurn() {
  const batch = queue;
  queue = [];
  commit(batch.map(({ plant }) => plant));
  commits++;
  for (const { resolve } of batch) resolve();
}

function create(plant) {
  if (mode === "request") {
    commit([plant]);
    commits++;
    return undefined;
  }
  return new Promise((resolve) => {
    if (queue.length === 0) setImmediate(commitTurn);
    queue.push({ plant, resolve });
  });
}

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
app.addHook("onRequest", async (req, reply) => {
  if (req.headers.authorization?.startsWith("Bearer ") !== true) return reply.code(401).send();
});
app.post("/plants", { schema }, async ({ body }) => {
  await create(body);
  return { name: body.name, tag: body.tag };
});
const url = await app.listen({ port: 0, host: "127.0.0.1" });
process.stdout.write(`listening on ${url}\n`);

const count = database.prepare("SELECT count(*) AS rows FROM plants");
process.on("message", () => process.send({ records: count.get().rows, syncs: commits }));
process.channel?.unref();
process.once("SIGTERM", () => process.exit(0));
