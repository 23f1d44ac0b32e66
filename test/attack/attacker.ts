/**
 * Carries out one attack, in a process of its own, from the first line on standard input, which is its target as JSON, until
 * the second one. Then it prints JSON that says what it did.
 *
 * Usage: attacker.ts NAME
 */
import { once } from "node:events";
import net from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { ATTACKS, type Target } from "./attacks.ts";

/** The kernel drops the packets of more that wait to be accepted. */
const OPENED_AT_A_TIME = 200;
const SLOW_READ_EVERY_MS = 1000;
/** Sooner, and connections that are gone fill the queue of the kernel. */
const LEAVES_AFTER_MS = 30;
const STATUS = Buffer.from("HTTP/1.1 ");

const attack = ATTACKS.find(({ name }) => name === process.argv[2]);
if (attack === undefined) throw new Error(`expected the name of an attack, got ${process.argv[2]}`);
const { by, connections, ahead = 1, responses, send } = attack;

const done = { opened: 0, closed: 0, readBytes: 0, statuses: {} as Record<string, number> };
let count = 0;

/** Opens a connection, and another one when it closes. */
function open(target: Target): net.Socket {
  const port = by === "a local user" ? target.adminPort : target.port;
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  done.opened++;
  socket.on("error", () => {});
  socket.on("close", () => {
    done.closed++;
    setTimeout(open, 1, target);
  });
  socket.on("connect", () => sendMore(socket, target, ahead));
  if (responses === "read") readAll(socket, target);
  if (responses === "read slowly") readSlowly(socket);
  if (responses === "discarded") socket.resume();
  return socket;
}

function sendMore(socket: net.Socket, target: Target, requests: number): void {
  const bytes = Buffer.concat(Array.from({ length: requests }, () => send(target, count++)));
  socket.write(
    bytes,
    () => responses === "not waited for" && setTimeout(() => socket.destroy(), LEAVES_AFTER_MS),
  );
}

/** Each response is followed by another request. */
function readAll(socket: net.Socket, target: Target): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    done.readBytes += chunk.length;
    const bytes = Buffer.concat([rest, chunk]);
    let [seen, from] = [0, 0];
    for (let at = bytes.indexOf(STATUS); at >= 0 && at + 12 <= bytes.length; ) {
      const status = bytes.toString("latin1", at + 9, at + 12);
      done.statuses[status] = (done.statuses[status] ?? 0) + 1;
      seen++;
      from = at + 12;
      at = bytes.indexOf(STATUS, from);
    }
    rest = bytes.subarray(Math.max(from, bytes.length - 11));
    if (seen > 0 && socket.writable) sendMore(socket, target, seen);
  });
}

function readSlowly(socket: net.Socket): void {
  socket.on("data", (chunk: Buffer) => {
    done.readBytes += chunk.length;
    socket.pause();
    setTimeout(() => socket.resume(), SLOW_READ_EVERY_MS);
  });
}

async function begin(target: Target): Promise<void> {
  for (let opened = 1; opened <= connections; opened++) {
    const connected = once(open(target), "connect").catch(() => {});
    if (opened % OPENED_AT_A_TIME === 0) await Promise.race([connected, sleep(500)]);
  }
}

let isBegun = false;
for await (const line of createInterface({ input: process.stdin })) {
  if (isBegun) break;
  isBegun = true;
  void begin(JSON.parse(line));
}
process.stdout.write(`${JSON.stringify(done)}\n`, () => process.exit());
