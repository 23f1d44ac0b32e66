/**
 * Sends requests on many connections, one at a time on each. Prints "open" once every connection has an
 * answer, and at its end as JSON how many answers had each status and the longest time of one.
 *
 * Usage: node request-flood.mjs PORT TOKEN CONNECTIONS REQUESTS [FIRST_ID]
 * With an id the requests are creates, otherwise reads. SIGTERM ends it after the requests under way.
 */
import { once } from "node:events";
import net from "node:net";

/** The kernel drops the packets of more that wait to be accepted, and sends them again seconds later. */
const OPENED_AT_A_TIME = 100;

const [port, token, connections, requests, firstId] = process.argv.slice(2);
const head = `HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`;
const statuses = {};
let nextId = Number(firstId);
let left = Number(requests);
let longestMs = 0;
let isOpen = false;

process.once("SIGTERM", () => {
  left = 0;
});

function encodeNext() {
  if (firstId === undefined) return `GET /plants/1 ${head}\r\n`;
  const body = `{"id":${nextId++},"name":"Fern"}`;
  const rest = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  return `POST /plants ${head}${rest}${body}`;
}

/** Returns a function that sends a request; once every connection is open each answer sends the next. */
function sender(socket) {
  let sentAt = 0;
  let text = "";
  const send = () => {
    if (left <= 0) return socket.end();
    left--;
    sentAt = performance.now();
    return socket.write(encodeNext());
  };
  socket.on("data", (more) => {
    text += more;
    const [, status, length] = /^HTTP\/1\.1 (\d+).*?content-length: (\d+)/is.exec(text) ?? [];
    const end = text.indexOf("\r\n\r\n") + 4 + Number(length);
    if (!(text.length >= end)) return;
    text = text.slice(end);
    statuses[status] = (statuses[status] ?? 0) + 1;
    longestMs = Math.max(longestMs, performance.now() - sentAt);
    socket.emit("answer");
    if (isOpen) send();
  });
  return send;
}

const sends = [];
const closed = [];
while (closed.length < Number(connections)) {
  const answered = Array.from({ length: OPENED_AT_A_TIME }, () => {
    const socket = net.connect(Number(port), "127.0.0.1").setNoDelay(true).setEncoding("latin1");
    const send = sender(socket);
    send();
    sends.push(send);
    closed.push(once(socket, "close"));
    return once(socket, "answer");
  });
  await Promise.all(answered);
}
isOpen = true;
process.stdout.write("open\n");
for (const send of sends) send();
await Promise.all(closed);
process.stdout.write(`${JSON.stringify({ statuses, longestMs })}\n`);
