/**
 * A peer: the plainest durable server, `node:http` with a group commit of
 * `fs.write` then `fs.fdatasync`. No validation beyond JSON.parse, and ids kept
 * in a Map. Usage: node group-commit.mjs DIRECTORY
 */
import fs from "node:fs";
import http from "node:http";
import path from "node:path";

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
  plants.set(plant.id, plant.name);
  queue.push({ line: `${JSON.stringify(plant)}\n`, done });
  if (!isFlushing) {
    isFlushing = true;
    setImmediate(flush);
  }
}

const server = http.createServer((req, res) => {
  const chunks = [];
  req.on("data", (chunk) => chunks.push(chunk));
  req.on("end", () => {
    const { id, name, tag } = JSON.parse(Buffer.concat(chunks).toString());
    create({ id, name, tag }, () => {
      const body = JSON.stringify({ name, tag });
      res.writeHead(200, {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      });
      res.end(body);
    });
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
