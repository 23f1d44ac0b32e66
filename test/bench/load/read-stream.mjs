/**
 * Reads all plants of a server as a stream of JSON lines, and counts them.
 *
 * Usage: node read-stream.mjs PORT TOKEN once|again
 * `again` begins anew after each end, until SIGTERM; the line "leave" on standard
 * input has it leave the stream, and "begin" has it begin another: what came before
 * it first left does not count. Prints "reading" with the first bytes that count,
 * and at the end one line of JSON: the plants and bytes that came, the milliseconds
 * in which it read, and the longest of them in which no byte came.
 */
import http from "node:http";

const [port, token, times] = process.argv.slice(2);
const LINE_FEED = 10;
const request = {
  port: Number(port),
  host: "127.0.0.1",
  path: "/plants",
  agent: new http.Agent({ keepAlive: true }),
  headers: { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" },
};

let plants = 0;
let bytes = 0;
let silenceMs = 0;
let ms = 0;
let last = performance.now();
/** The request in progress; `undefined` after the reader has left. */
let asking;
let hasLeft = false;

function take(chunk) {
  if (bytes === 0) process.stdout.write("reading\n");
  bytes += chunk.length;
  for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, at + 1)) plants++;
  noteSilence();
}

function noteSilence() {
  const now = performance.now();
  silenceMs = Math.max(silenceMs, now - last);
  ms += now - last;
  last = now;
}

function read() {
  const own = http.get(request, (answer) => {
    if (answer.statusCode !== 200) throw new Error(`the answer was ${answer.statusCode}`);
    answer
      .on("data", take)
      .on("error", fail)
      .on("end", () => {
        if (times === "again") read();
        else report();
      });
  });
  // A stream that is cut ends with an error; so does a stream that was left.
  const fail = (error) => {
    if (asking === own) throw error;
  };
  own.on("error", fail);
  asking = own;
}

function begin() {
  if (asking !== undefined) return;
  last = performance.now();
  read();
}

function leave() {
  if (asking === undefined) return;
  noteSilence();
  if (!hasLeft) plants = bytes = ms = silenceMs = 0;
  hasLeft = true;
  const left = asking;
  asking = undefined;
  left.destroy();
}

function report() {
  if (asking !== undefined) noteSilence(); // a silence that still lasts
  process.stdout.write(`${JSON.stringify({ plants, bytes, ms, silenceMs })}\n`, () =>
    process.exit(),
  );
}

process.once("SIGTERM", report);
if (times === "again") {
  process.stdin.setEncoding("utf8").on("data", (lines) => {
    if (lines.endsWith("leave\n")) leave();
    else begin();
  });
}
read();
