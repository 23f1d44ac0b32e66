/**
 * A peer: fastify 5 over better-sqlite3, as in production: WAL, synchronous=FULL
 * (an fdatasync of the WAL per commit), schemas for body and answer, and the
 * contract (contract.mjs).
 *
 * Usage: node fastify-sqlite.mjs DIRECTORY turn|request
 * A transaction holds every request of one turn of the event loop, or one request.
 * Reports rows and commits over IPC.
 */
import path from "node:path";
import Database from "better-sqlite3";
import Fastify from "fastify";
import { isAllowed, isSame, REFUSALS, requestId } from "./contract.mjs";

const [directory, mode] = process.argv.slice(2);
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
let commits = 0;
let queue = [];

/** Stores a batch; returns for each plant whether it may be answered with 200. */
const commit = database.transaction((batch) =>
  batch.map(({ id, name, tag }) => {
    const { changes } = insert.run(BigInt(id), name, tag ?? null);
    return changes === 1 || isSame(find.get(BigInt(id)), { name, tag });
  }),
);

function commitTurn() {
  const batch = queue;
  queue = [];
  const stored = commit(batch.map(({ plant }) => plant));
  commits++;
  for (const [at, { resolve }] of batch.entries()) resolve(stored[at]);
}

function create(plant) {
  if (mode === "request") {
    commits++;
    return commit([plant])[0];
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
const refuse = (reply, { status, body }) => reply.code(status).send(body);
const app = Fastify({ genReqId: ({ headers }) => requestId(headers) });
app.addHook("onRequest", async (req, reply) => {
  reply.header("x-request-id", req.id);
  if (isAllowed(req.headers.authorization)) return;
  return refuse(reply, REFUSALS.token);
});
app.setErrorHandler((_, __, reply) => refuse(reply, REFUSALS.plant));
app.post("/plants", { schema }, async ({ body }, reply) => {
  if (await create(body)) return { name: body.name, tag: body.tag };
  return refuse(reply, REFUSALS.conflict);
});
const url = await app.listen({ port: 0, host: "127.0.0.1" });
process.stdout.write(`listening on ${url}\n`);

const count = database.prepare("SELECT count(*) AS rows FROM plants");
process.on("message", () => process.send({ records: count.get().rows, syncs: commits }));
process.channel?.unref();
process.once("SIGTERM", () => process.exit(0));
