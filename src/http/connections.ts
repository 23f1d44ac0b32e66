/**
 * The connections of our own server: whose they are, which requests are carried out on each, and how they end.
 *
 * Invariants. After a response that closes a connection no request is carried out. If there are too many
 * connections, the client with the most of them loses some of its oldest; all without a good token are one client.
 */
import { IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { publishWarning } from "../core/channels.ts";
import type { PlantStoreError } from "../core/errors.ts";
import { overloaded } from "./budget.ts";
import { Exchange, linger } from "./exchange.ts";
import { errorOfParser, framingErrorOf } from "./head.ts";
import type { Listener } from "./listener.ts";
import { ignoreBody } from "./node-internals.ts";

/** For each connection. No ordinary client sends so many ahead, and a few that did would delay everybody. */
const UNANSWERED_MAX = 16;
/** New keys of TLS: each is as much work as a small request, and no client needs so many. */
const KEYS_MAX = 16;
/** How often idle connections are looked for. A timer of Node's for each is set at each request: 5 % of a create. */
const SWEEP_MS = 1000;
/** The client of all connections that have shown no good token. */
const ANONYMOUS = "";

class Connection {
  client = ANONYMOUS;
  /** Requests whose responses have not left. */
  unanswered = 0;
  /** The newest request: until its response has left, or until the next one if it was refused or is not whole. */
  last: Exchange | undefined;
  /** `socket.bytesRead` when a request was refused without a good token. Another at this count came in its packet. */
  refusedAt: number | undefined;
  keys = 0;
  /** Since when nothing came and no response was owed, at the last sweep. */
  idleSince = performance.now();
  /** `socket.bytesRead` at the last sweep. */
  sweptBytes = 0;
}

export class Connections {
  readonly #listener: Listener;
  readonly #max: number;
  readonly #idleMs: number;
  readonly #all = new Map<Socket, Connection>();
  #evictions = 0;
  #isDraining = false;

  /** Takes over the connections of a server. */
  constructor(server: Server, listener: Listener, max: number, idleMs: number) {
    this.#listener = listener;
    this.#max = max;
    this.#idleMs = idleMs;
    const sweeping = setInterval(this.#sweep, Math.min(SWEEP_MS, idleMs)).unref();
    server.on("close", () => clearInterval(sweeping));
    server.on("connection", this.#add);
    server.on("secureConnection", (socket: Socket) => {
      socket.allowHalfOpen = true; // as without TLS, but not during the handshake
      // The socket below TLS counts until its handshake is done.
      const { remoteAddress, remotePort } = socket;
      for (const raw of this.#all.keys()) {
        const isBelow = raw.remotePort === remotePort && raw.remoteAddress === remoteAddress;
        if (isBelow) this.#all.delete(raw);
      }
      this.#add(socket);
    });
    server.on("keylog", (_, socket: Socket) => {
      const connection = this.#all.get(socket); // none during the handshake
      if (connection !== undefined && ++connection.keys >= KEYS_MAX) socket.destroy();
    });
    server.on("timeout", (socket: Socket) => {
      // A response that the client does not take would hold its memory for ever.
      if (socket.writableLength > 0) socket.destroy();
    });
    server.on("request", this.#handle);
    server.on("checkExpectation", this.#handle); // else Node responds 417 without a body
    server.on("checkContinue", this.#handle); // else it sends 100 before a refusal
    server.on("clientError", (error, socket) => this.#refuse(socket as Socket, error));
  }

  readonly #add = (socket: Socket) => {
    this.#all.set(socket, new Connection());
    socket.once("close", () => this.#all.delete(socket));
    if (this.#all.size > this.#max) this.#evict(socket);
  };

  /** Makes room for several, so that a flood need not count them all each time. */
  #evict(newest: Socket): void {
    const counts = new Map([[ANONYMOUS, 0]]);
    for (const { client } of this.#all.values()) counts.set(client, (counts.get(client) ?? 0) + 1);
    if (counts.get(ANONYMOUS) === 1) counts.delete(ANONYMOUS); // that is the newest, which stays
    const [[largest] = []] = [...counts].sort(([, a], [, b]) => b - a);
    const owned = [...this.#all].filter(([socket, { client }]) => {
      return client === largest && socket !== newest;
    });
    // With a good token a connection is better closed while it waits than in a create.
    const idle = owned.filter(([, { unanswered }]) => largest !== ANONYMOUS && unanswered === 0);
    const evicted = idle.length > 0 ? idle : owned;
    for (const [socket] of evicted.slice(0, Math.ceil(owned.length / 64))) {
      this.#all.delete(socket); // it closes later, and counts no more
      socket.destroy();
    }
    if (this.#evictions++ % 1000 > 0) return;
    publishWarning(
      `Closed an old connection of the client with the most, because ${this.#max} are open (connectionsMax); ` +
        "find out who opens so many, or allow more open files and memory",
    );
  }

  readonly #handle = (req: IncomingMessage, res: ServerResponse, parserError?: PlantStoreError) => {
    const { socket } = req;
    const connection = this.#all.get(socket);
    if (connection === undefined) return;
    const { last, refusedAt } = connection;
    // After a request without a good token, the rest of its packet gets no response.
    if (refusedAt === socket.bytesRead && parserError === undefined) last?.closeAfter();
    if (last?.isLast === true) return ignoreBody(req);
    const exchange = new Exchange(req, res, this.#listener, this.#release);
    connection.last = exchange;
    if (this.#isDraining) exchange.closeAfter();
    const isOneTooMany = ++connection.unanswered > UNANSWERED_MAX;
    const error = parserError ?? (isOneTooMany ? overloaded() : framingErrorOf(req));
    this.#listener.handle(exchange, error);
    if (exchange.caller !== undefined) connection.client = exchange.caller.name;
    else if (res.headersSent) connection.refusedAt = socket.bytesRead;
  };

  readonly #release = (exchange: Exchange) => {
    const { caller, req } = exchange;
    const connection = this.#all.get(req.socket);
    if (connection === undefined) return;
    connection.unanswered--;
    if (exchange.isLast) linger(req.socket);
    if (caller === undefined) return;
    connection.client = caller.name; // perhaps its token took a while to verify
    if (req.complete && connection.last === exchange) connection.last = undefined;
  };

  readonly #sweep = () => {
    const now = performance.now();
    for (const [socket, connection] of this.#all) {
      const { unanswered, sweptBytes } = connection;
      if (unanswered > 0 || sweptBytes !== socket.bytesRead) connection.idleSince = now;
      connection.sweptBytes = socket.bytesRead;
      if (now - connection.idleSince >= this.#idleMs) socket.destroy();
      else if (socket.writableLength > 0 && !socket.timeout) socket.setTimeout(this.#idleMs);
    }
  };

  /** The parser gave up on the bytes that came last, or the time for a request ran out. */
  #refuse(socket: Socket, cause: NodeJS.ErrnoException): void {
    if (cause.code === "HPE_CLOSED_CONNECTION") return; // the client wished it to close
    const connection = this.#all.get(socket);
    const error = errorOfParser(cause);
    if (!connection || !error || !socket.writable) return void socket.destroy();
    const { last } = connection;
    if (last !== undefined && (last.isLast || !last.req.complete)) {
      last.closeAfter(); // the server reads no further request
      if (!last.req.complete) last.fail(error);
    } else {
      const req = new IncomingMessage(socket); // these bytes never became one
      const res = new ServerResponse(req);
      this.#handle(req, res, error); // it responds after the whole requests before it
      if (connection.unanswered === 1) res.assignSocket(socket);
      else last?.res.once("close", () => socket.destroyed || res.assignSocket(socket));
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
