/**
 * The open connections of our own server: how many there are and whose, which requests are carried out on each,
 * and how they end.
 *
 * Invariants. Responses leave in the order of their requests. After a response that closes a connection no
 * request is carried out. If a connection too many comes, the client with the most connections loses one, the
 * oldest silent one or the oldest; all connections without a good token are one client.
 */
import { IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import tls from "node:tls";
import { publishWarning } from "../core/channels.ts";
import { overloaded } from "./budget.ts";
import { closeWith, Exchange } from "./exchange.ts";
import { checkFraming, errorOfParser } from "./head.ts";
import type { Listener } from "./listener.ts";
import { ignoreFollowing } from "./node-internals.ts";

/** Of each connection. No ordinary client sends so many ahead, and those of a few would keep everybody waiting. */
const UNANSWERED_MAX = 16;
/** A client may ask for new keys instead of sending requests; each time costs as much as a small request. */
const KEY_UPDATES_MAX = 16;
/** Among so many of the oldest, one that has sent nothing is closed first. */
const SILENT_AMONG = 32;
/** How often idle connections and slow requests are looked for. */
export const SWEEP_MS = 1000;
/** The client of all connections that have shown no good token. */
const ANONYMOUS = "";

class Connection {
  client = ANONYMOUS;
  /** Requests whose responses have not left. */
  unanswered = 0;
  /** The request that came last, unless it is over: it may hold a body. */
  last: Exchange | undefined;
  /** It closes, and no further request is carried out. */
  isOver = false;
  /** The number of sweeps before its last response left. */
  idleSince: number | undefined;
  /** How many bytes were read when a request got a response that needs no good token. */
  refusedAt: number | undefined;
  keyUpdates = 0;
}

export class Connections {
  readonly #listener: Listener;
  readonly #max: number;
  readonly #idleSweeps: number;
  readonly #all = new Map<Socket, Connection>();
  /** The connections of each client, oldest first. */
  readonly #clients = new Map<string, Set<Socket>>();
  /** Under TLS: connections during their handshake, by the address of the client. */
  readonly #handshakes = new Map<string, Socket>();
  #sweeps = 0;
  #evicted = 0;
  #isDraining = false;

  constructor(listener: Listener, max: number, idleMs: number) {
    this.#listener = listener;
    this.#max = max;
    this.#idleSweeps = Math.ceil(idleMs / SWEEP_MS);
  }

  /** Takes over the connections of a server. */
  attach(server: Server): void {
    const sweeping = setInterval(() => this.#sweep(), SWEEP_MS).unref();
    server.on("close", () => clearInterval(sweeping));
    server.on("connection", (socket: Socket) => {
      this.#add(socket);
      if (server instanceof tls.Server) this.#handshakes.set(addressOf(socket), socket);
    });
    server.on("secureConnection", (socket: Socket) => {
      const raw = this.#handshakes.get(addressOf(socket));
      if (raw !== undefined) this.#remove(raw);
      this.#add(socket);
    });
    server.on("keylog", (line: Buffer, socket: Socket) => this.#countKeys(line, socket));
    server.on("request", this.#handle);
    server.on("checkExpectation", this.#handle); // else Node responds 417 without a body
    server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
      this.#handle(req, res, () => res.writeContinue());
    });
    server.on("clientError", (error, socket) => this.#refuse(socket as Socket, error));
  }

  #add(socket: Socket): void {
    this.#all.set(socket, new Connection());
    this.#move(socket, undefined, ANONYMOUS);
    socket.once("close", () => this.#remove(socket));
    if (this.#all.size > this.#max) this.#evict(socket);
  }

  #remove(socket: Socket): void {
    this.#handshakes.delete(addressOf(socket));
    const connection = this.#all.get(socket);
    this.#all.delete(socket);
    if (connection !== undefined) this.#move(socket, connection.client, undefined);
  }

  #move(socket: Socket, from: string | undefined, to: string | undefined): void {
    const before = this.#clients.get(from ?? "");
    if (from !== undefined) before?.delete(socket);
    if (before?.size === 0) this.#clients.delete(from ?? "");
    if (to === undefined) return;
    const sockets = this.#clients.get(to) ?? new Set();
    this.#clients.set(to, sockets.add(socket));
  }

  #evict(newest: Socket): void {
    let largest = this.#clients.get(ANONYMOUS) ?? new Set<Socket>();
    for (const sockets of this.#clients.values()) {
      if (sockets.size > largest.size) largest = sockets;
    }
    const evicted = oldestOf(largest, newest);
    if (evicted === undefined) return;
    this.#remove(evicted); // it closes later, and counts no more
    evicted.destroy();
    if (this.#evicted++ % 1000 > 0) return;
    publishWarning(
      `Closed a connection, because there is room for ${this.#max} (connectionsMax): the oldest of the client ` +
        "with the most; find out who opens so many, or permit more open files and memory",
    );
  }

  #countKeys(line: Buffer, socket: Socket): void {
    const connection = this.#all.get(socket); // none during the handshake
    if (connection === undefined || !line.includes("CLIENT_TRAFFIC_SECRET_")) return;
    if (++connection.keyUpdates >= KEY_UPDATES_MAX) socket.destroy();
  }

  readonly #handle = (req: IncomingMessage, res: ServerResponse, sendContinue?: () => void) => {
    const { socket } = req;
    const connection = this.#all.get(socket);
    if (connection === undefined) return;
    const { last } = connection;
    // An ordinary client waits for a response that needs no good token: nothing follows in its packet.
    if (connection.refusedAt !== undefined && connection.refusedAt === socket.bytesRead) {
      connection.refusedAt = undefined;
      connection.isOver = true;
      if (last === undefined) closeWith(socket, "");
      else last.whenSent(() => closeWith(socket, ""));
    }
    if (connection.isOver || last?.isLast === true) {
      ignoreFollowing(req);
      req.resume();
      if (++connection.unanswered > 2 * UNANSWERED_MAX) socket.destroy(); // it was not ignored
      return;
    }
    const exchange = this.#begin(connection, req, res);
    try {
      if (connection.unanswered > UNANSWERED_MAX) throw overloaded();
      checkFraming(req);
    } catch (error) {
      this.#listener.refuse(exchange, error);
      return;
    }
    this.#listener.handle(exchange, sendContinue);
    this.#know(connection, exchange);
    const isRefused = exchange.isResponded && exchange.caller === undefined;
    if (isRefused) connection.refusedAt = socket.bytesRead;
  };

  #begin(connection: Connection, req: IncomingMessage, res: ServerResponse): Exchange {
    const { last } = connection;
    const previous = last?.isOver === false ? last : undefined;
    const exchange = new Exchange(req, res, this.#listener.budget, previous, this.#end);
    connection.unanswered++;
    connection.last = exchange;
    if (this.#isDraining) exchange.closeAfter();
    return exchange;
  }

  readonly #end = (exchange: Exchange) => {
    const connection = this.#all.get(exchange.req.socket);
    if (connection === undefined) return;
    connection.unanswered--;
    connection.idleSince = this.#sweeps;
    this.#know(connection, exchange);
    const isDone = exchange.req.complete && !exchange.isLast && connection.last === exchange;
    if (isDone) connection.last = undefined;
  };

  /** The connection belongs to the client that has shown a good token. */
  #know(connection: Connection, { caller, req }: Exchange): void {
    if (caller === undefined || caller.name === connection.client) return;
    this.#move(req.socket, connection.client, caller.name);
    connection.client = caller.name;
  }

  /** The parser gave up on the bytes that came last, or the time for a request ran out. */
  #refuse(socket: Socket, cause: NodeJS.ErrnoException): void {
    if (cause.code === "HPE_CLOSED_CONNECTION") return; // the client wished it to close
    const connection = this.#all.get(socket);
    const error = errorOfParser(cause);
    const last = connection?.last;
    if (connection === undefined || error === undefined || !socket.writable) socket.destroy();
    else if (last?.req.complete === false && !last.isResponded) {
      last.closeAfter();
      last.fail(error);
    } else if (connection.isOver || last?.isLast === true) return;
    else if (last?.req.complete === false) socket.destroy();
    else {
      const req = new IncomingMessage(socket); // these bytes never became one
      req.headers.origin = this.#listener.onlyOrigin;
      this.#listener.refuse(this.#begin(connection, req, new ServerResponse(req)), error);
    }
  }

  #sweep(): void {
    this.#sweeps++;
    for (const [socket, { unanswered, idleSince }] of this.#all) {
      // Node itself times a connection before its first request.
      const sweeps = this.#sweeps - (idleSince ?? this.#sweeps);
      if (unanswered === 0 && sweeps > this.#idleSweeps) socket.destroy();
    }
  }

  /** From now on the last response of each connection closes it. */
  drain(): void {
    this.#isDraining = true;
    for (const { unanswered, last } of this.#all.values()) if (unanswered > 0) last?.closeAfter();
  }

  /** Closes the connections that owe no response, or all. */
  close(isAll: boolean): void {
    for (const [socket, { unanswered }] of this.#all) {
      if (isAll || unanswered === 0) socket.destroy();
    }
  }
}

/** Of the client; the same for a connection under TLS and the one that it came over. */
function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** The oldest connection that has sent nothing, else the oldest: an ordinary client sends at once. */
function oldestOf(sockets: ReadonlySet<Socket>, newest: Socket): Socket | undefined {
  let count = 0;
  for (const socket of sockets) {
    if (socket.bytesRead === 0 && socket !== newest) return socket;
    if (++count === SILENT_AMONG) break;
  }
  const [oldest] = sockets;
  return oldest;
}
