/**
 * Carries out one attack, in a process of its own: prints "ready", begins when its target arrives on
 * standard input, as a line of JSON, and ends at the next line, with JSON that says what it did.
 *
 * Usage: attacker.ts NAME
 */
import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ATTACKS, type Attack, type Target } from "./attacks.ts";

/** The kernel drops the packets of more that wait to be accepted. */
const OPENED_AT_A_TIME = 200;
const SLOW_READ_EVERY_MS = 1000;
const STATUS = Buffer.from("HTTP/1.1 ");

export interface Attacked {
  opened: number;
  closed: number;
  /** Without what the system did not take. */
  sentBytes: number;
  readBytes: number;
  /** How many answers had each status, of those that were read. */
  readonly statuses: Record<string, number>;
}

const done: Attacked = { opened: 0, closed: 0, sentBytes: 0, readBytes: 0, statuses: {} };

const sockets = new Set<net.Socket>();

function count(socket: net.Socket): void {
  done.sentBytes += socket.bytesWritten - socket.writableLength;
  sockets.delete(socket);
}

class Attacker {
  readonly #attack: Attack;
  readonly #target: Target;
  #count = 0;

  constructor(attack: Attack, target: Target) {
    this.#attack = attack;
    this.#target = target;
  }

  /** Opens all connections, and each again when it closes. */
  async begin(): Promise<void> {
    const { connections, paceMs } = this.#attack;
    for (let opened = 1; opened <= connections; opened++) {
      const connected = once(this.#open(), "connect").catch(() => {});
      if (paceMs !== undefined) await sleep(paceMs);
      else if (opened % OPENED_AT_A_TIME === 0) await Promise.race([connected, sleep(500)]);
    }
  }

  #open(): net.Socket {
    const { by, answers, ahead = 1 } = this.#attack;
    const port = by === "a local user" ? this.#target.adminPort : this.#target.port;
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    done.opened++;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      done.closed++;
      count(socket);
      setTimeout(() => this.#open(), 1);
    });
    socket.on("connect", () => void this.#send(socket, ahead));
    if (answers === "read") this.#readAll(socket);
    if (answers === "read slowly") readSlowly(socket);
    return socket;
  }

  async #send(socket: net.Socket, requests: number): Promise<void> {
    const { send } = this.#attack;
    const packet = Array.from({ length: requests }, () => send(this.#target, this.#count++));
    const bytes = Buffer.concat(packet);
    const { pieceBytes = bytes.length } = this.#attack;
    for (let at = 0; at < bytes.length && socket.writable; at += pieceBytes) {
      const hasRoom = socket.write(bytes.subarray(at, at + pieceBytes));
      if (at + pieceBytes >= bytes.length) return;
      if (hasRoom) await new Promise((resolve) => setImmediate(resolve));
      else await Promise.race([once(socket, "drain"), once(socket, "close")]).catch(() => {});
    }
  }

  #readAll(socket: net.Socket): void {
    let rest: Buffer = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      done.readBytes += chunk.length;
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let answers = 0;
      let from = 0;
      for (let at = bytes.indexOf(STATUS); at >= 0 && at + 12 <= bytes.length; ) {
        const status = bytes.toString("latin1", at + 9, at + 12);
        done.statuses[status] = (done.statuses[status] ?? 0) + 1;
        answers++;
        from = at + 12;
        at = bytes.indexOf(STATUS, from);
      }
      rest = bytes.subarray(Math.max(from, bytes.length - 11));
      if (answers > 0) void this.#send(socket, answers);
    });
  }
}

function readSlowly(socket: net.Socket): void {
  socket.on("data", (chunk: Buffer) => {
    done.readBytes += chunk.length;
    socket.pause();
    setTimeout(() => socket.resume(), SLOW_READ_EVERY_MS).unref();
  });
}

const name = process.argv[2];
const attack = ATTACKS.find((one) => one.name === name);
if (attack === undefined) throw new Error(`expected the name of an attack, got ${name}`);
process.stdout.write("ready\n");
const [target] = await once(process.stdin, "data");
void new Attacker(attack, JSON.parse(String(target))).begin();
await once(process.stdin, "data");
for (const socket of sockets) count(socket);
process.stdout.write(`${JSON.stringify(done)}\n`, () => process.exit());
