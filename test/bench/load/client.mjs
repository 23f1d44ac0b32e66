/**
 * The load where `wrk` is not installed: raw keep-alive sockets, one request in flight on each. It runs in Node, so it
 * may be slower than the server that it loads, and ratios come out too near to 1.
 *
 * Usage: node client.mjs PORT TOKEN CONNECTIONS SECONDS FIRST_ID KIND [IDS]
 * `create` takes the ids of 16 digits from FIRST_ID on; `repeat` and `get` draw one of the IDS plants from there on.
 * Prints one line of JSON like the script for wrk. It waits for the requests in flight, so its count is exact.
 */
import { once } from "node:events";
import net from "node:net";

const TAIL = ',"name":"Monstera deliciosa","tag":"tropical"}';
const [port, token, count, seconds, firstId, kind, ids] = process.argv.slice(2);
const first = Number(firstId);
let next = first;
const nextId = () => (kind === "create" ? next++ : first + Math.floor(Math.random() * Number(ids)));
const common = ` HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n`;
const length = '{"id":'.length + 16 + TAIL.length;
const head = `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{"id":`;
const encode =
  kind === "get"
    ? () => `GET /plants/${nextId()}${common}\r\n`
    : () => `POST /plants${common}${head}${nextId()}${TAIL}`;

const sockets = [];
for (let opened = 0; opened < Number(count); opened++) {
  const socket = net.connect(Number(port), "127.0.0.1").setNoDelay(true).setEncoding("latin1");
  await once(socket, "connect");
  sockets.push(socket);
}
const latencies = [];
let failures = 0;
const start = performance.now();
const end = start + Number(seconds) * 1000;
await Promise.all(sockets.map(exchange));
const us = (performance.now() - start) * 1000;
for (const socket of sockets) socket.destroy();
const sorted = Float64Array.from(latencies).sort();
const p50 = sorted[sorted.length >> 1] ?? 0;
process.stdout.write(`${JSON.stringify({ requests: sorted.length, us, p50, failures })}\n`);

/** Sends one request after the other on a socket; resolves with the last answer. */
async function exchange(socket) {
  while (performance.now() < end) {
    const sentAt = performance.now();
    socket.write(encode());
    let text = "";
    while (!isWhole(text)) text += (await once(socket, "data"))[0];
    if (text.startsWith("HTTP/1.1 200 ")) latencies.push((performance.now() - sentAt) * 1000);
    else failures++;
  }
}

function isWhole(text) {
  const bodyStart = text.indexOf("\r\n\r\n") + 4;
  if (bodyStart < 4) return false;
  const bytes = /\r\ncontent-length: *([0-9]+)/i.exec(text.slice(0, bodyStart))?.[1];
  return text.length >= bodyStart + Number(bytes);
}
