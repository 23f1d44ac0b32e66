/**
 * A peer: the plainest durable server, `node:http` with a group commit of
 * `fs.write` then `fs.fdatasync`, ids kept in a Map, and the contract
 * (contract.mjs). Usage: node group-commit.mjs DIRECTORY
 */
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { isAllowed, isPlant, isSame, requestId } from "./contract.mjs";

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

function create(plant, done) {
  const present = plants.get(plant.id);
  if (present !== undefined && !isSame(present, plant)) return done("the id is taken");
  if (present === undefined) plants.set(plant.id, { name: plant.name, tag: plant.tag });
  queue.push({ line: present === undefined ? `${JSON.stringify(plant)}\n` : "", done });
  if (!isFlushing) {
    isFlushing = true;
    setImmediate(flush);
  }
}

function readPlant(req, chunks) {
  if (!isAllowed(req.headers.authorization)) return "expected a valid token";
  try {
    const plant = JSON.parse(Buffer.concat(chunks).toString());
    return isPlant(plant) ? { id: plant.id, name: plant.name, tag: plant.tag } : "expected a plant";
  } catch {
    return "expected JSON";
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
  const refuse = (message) => answer(400, { error: 40000, message });
  const chunks = [];
  req.on("data", (chunk) => chunks.push(chunk));
  req.on("end", () => {
    const plant = readPlant(req, chunks);
    if (typeof plant === "string") return refuse(plant);
    create(plant, (fault) => {
      if (fault !== undefined) refuse(fault);
      else answer(200, { name: plant.name, tag: plant.tag });
    });
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
