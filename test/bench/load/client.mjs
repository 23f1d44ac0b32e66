/**
 * The load where `wrk` is not installed: raw keep-alive sockets, one request
 * in flight on each, every request with an id of its own.
 *
 * After its seconds it sends no more and waits for what is in flight, so its
 * count is exact. Being Node itself it may be slower than the server it loads;
 * then ratios come out nearer to 1 than they are, which is why `wrk` goes first.
 *
 * Usage: node client.mjs PORT TOKEN CONNECTIONS SECONDS FIRST_ID
 * Prints one line of JSON like the script for wrk.
 */
import net from "node:net";

const [port, token, connections, seconds, firstId] = process.argv.slice(2);
const TAIL = ',"name":"Monstera deliciosa","tag":"tropical"}';
const BODY_BYTES = '{"id":'.length + 16 + TAIL.length;
const HEAD =
  `POST /plants HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${BODY_BYTES}\r\n\r\n{"id":`;

let nextId = Number(firstId);
let failures = 0;
let open = 0;
const latencies = []; // in microseconds
const start = performance.now();
const end = start + Number(seconds) * 1000;

/** The length of the answer at the start of the text, once all of it is there. */
function answerLength(text) {
  const bodyStart = text.indexOf("\r\n\r\n") + 4;
  if (bodyStart < 4) return undefined;
  const length = Number(/\r\ncontent-length: *([0-9]+)/i.exec(text)?.[1]);
  return text.length >= bodyStart + length ? bodyStart + length : undefined;
}

function run() {
  const socket = net.connect(Number(port), "127.0.0.1");
  let text = "";
  let sentAt = 0;
  const send = () => {
    sentAt = performance.now();
    socket.write(`${HEAD}${++nextId}${TAIL}`);
  };
  open++;
  socket.setNoDelay(true).setEncoding("latin1").on("connect", send);
  socket.on("data", (chunk) => {
    text += chunk;
    if (answerLength(text) === undefined) return;
    const now = performance.now();
    if (text.startsWith("HTTP/1.1 200 ")) latencies.push((now - sentAt) * 1000);
    else failures++;
    text = "";
    if (now < end) send();
    else socket.end();
  });
  socket.on("error", () => failures++);
  socket.on("close", () => {
    if (--open === 0) report();
  });
}

function report() {
  const us = (performance.now() - start) * 1000;
  const sorted = Float64Array.from(latencies).sort();
  const [p50, p99] = [0.5, 0.99].map((share) => sorted[Math.floor(sorted.length * share)] ?? 0);
  process.stdout.write(`${JSON.stringify({ requests: sorted.length, us, p50, p99, failures })}\n`);
}

for (let count = 0; count < Number(connections); count++) run();
