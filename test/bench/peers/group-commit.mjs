/**
 * A peer: the plainest durable server, `node:http` with a group commit of
 * `fs.write` then `fs.fdatasync`, ids kept in a Map, and the contract
 * (contract.mjs). Usage: node group-commit.mjs DIRECTORY
 */
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { isAllowed, isPlant, isSame, REFUSALS, requestId } from "./contract.mjs";

const fd = fs.openSync(path.join(process.argv[2], "plants.jsonl"), "a");
const plants = new Map();
let queue = [];
let isFlushing = false;

function flush() {
  isFlushing = queue.length > 0;
  if (!isFlushing) return;
  const batch = queue;
  queue = [];
  fs.write(fd, batch.map(({ line }) => line).join(""), (writeError) => {
    if (writeError) throw writeError;
    fs.fdatasync(fd, (syncError) => {
      if (syncError) throw syncError;
      for (const { done } of batch) done();
      flush();
    });
  });
}

/** Calls `done` with the refusal, or without an argument when the plant is durable. */
function create(plant, done) {
  const present = plants.get(plant.id);
  if (present !== undefined && !isSame(present, plant)) return done(REFUSALS.conflict);
  if (present === undefined) plants.set(plant.id, { name: plant.name, tag: plant.tag });
  queue.push({ line: present === undefined ? `${JSON.stringify(plant)}\n` : "", done });
  if (!isFlushing) {
    isFlushing = true;
    setImmediate(flush);
  }
}

/** The plant of a body; `undefined` if there is none. */
function readPlant(body) {
  try {
    const plant = JSON.parse(body);
    return isPlant(plant) ? { id: plant.id, name: plant.name, tag: plant.tag } : undefined;
  } catch {
    return undefined;
  }
}

const server = http.createServer((req, res) => {
  const answer = (status, value) => {
    const body = JSON.stringify(value);
    res.writeHead(status, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      "x-request-id": requestId(req.headers),
    });
    res.end(body);
  };
  const refuse = ({ status, body }) => answer(status, body);
  if (!isAllowed(req.headers.authorization)) {
    req.resume();
    return refuse(REFUSALS.token);
  }
  const chunks = [];
  req.on("data", (chunk) => chunks.push(chunk));
  req.on("end", () => {
    const plant = readPlant(Buffer.concat(chunks).toString());
    if (plant === undefined) return refuse(REFUSALS.plant);
    create(plant, (refusal) => {
      if (refusal !== undefined) refuse(refusal);
      else answer(200, { name: plant.name, tag: plant.tag });
    });
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
