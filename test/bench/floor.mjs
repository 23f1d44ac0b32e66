/**
 * The floor: a bare `node:http` server that reads the body and answers a
 * constant. The owner's program, unchanged except for this comment and its layout.
 * Usage: node floor.mjs PORT
 */
import http from "node:http";

const out = Buffer.from('{"name":"Monstera deliciosa","tag":"tropical"}');
http
  .createServer((req, res) => {
    const chunks = [];
    req.on("data", (c) => chunks.push(c));
    req.on("end", () => {
      Buffer.concat(chunks);
      res.writeHead(200, { "content-type": "application/json", "content-length": out.length });
      res.end(out);
    });
  })
  .listen(+process.argv[2] || 7000, "127.0.0.1");
