/**
 * Our own HTTP server around the listener: its limits, its start and its orderly end.
 *
 * Invariant: every failure that can still be written has the Error body, including the faults that
 * Node's parser raises (see http/connections).
 */
import http, { IncomingMessage, type Server } from "node:http";
import net, { type Socket } from "node:net";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { type Numbers, normalizeBasePath, readNumber } from "../core/options.ts";
import { DirectRequest, isDirectSafe } from "./body.ts";
import { CONNECTION_CHECK_MS, Connections, DRAIN_LOOK_MS } from "./connections.ts";
import { NODE_HEADERS_MAX } from "./head.ts";
import { addressOf, type ListenOptions, limitConnections, listen } from "./listen.ts";
import { Listener, type ListenerOptions } from "./listener.ts";
import { createTlsServer, replaceCertificate, type TlsOptions, watchHandshakes } from "./tls.ts";

export interface ServerOptions extends ListenerOptions, ListenOptions {
  /** Serve HTTPS, TLS 1.2 or later, with this certificate. Default: plain HTTP. */
  readonly tls?: TlsOptions | undefined;
  /** Request line and headers together; beyond it 431. Default: 16 KiB. */
  readonly headerBytesMax?: number | undefined;
  /** To receive all headers; beyond it 408. Default: 10,000; never more than `requestTimeoutMs`. */
  readonly headerTimeoutMs?: number | undefined;
  /** To receive a whole request; beyond it 408. Default: 30,000. */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * An idle connection is closed after this and up to 3 s more. Default: 75,000, so that a load
   * balancer, after 60 s, closes first.
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /**
   * Connections that are open at once. For one more an old one is closed: while more than half have shown
   * no good token, the oldest of those; else the oldest beyond the share of its token, which keeps no
   * more than stay free. Default: the smaller of what the limit of open files leaves, and of what half of the heap
   * (of the memory, if that is less) holds at 48 KiB each; with TLS at 116 KiB, and at 250 KiB during the handshake.
   */
  readonly connectionsMax?: number | undefined;
  /** For tests: see `STALL_MS`. @internal */
  readonly stallTimeoutMs?: number | undefined;
  /** For tests: see `CONNECTION_CHECK_MS`. @internal */
  readonly connectionCheckIntervalMs?: number | undefined;
}

export class PlantServer {
  /** What clients call `{base_url}`. */
  readonly url: string;
  readonly #server: Server;
  readonly #connections: Connections;
  readonly #isSocketHeld: boolean;
  #closing: Promise<void> | undefined;

  private constructor(server: Server, connections: Connections, options: ServerOptions) {
    this.#server = server;
    this.#connections = connections;
    this.#isSocketHeld = options.fd !== undefined;
    const scheme = options.tls === undefined ? "http" : "https";
    this.url = `${scheme}://${addressOf(server)}${normalizeBasePath(options.basePath ?? "")}`;
  }

  /**
   * Starts to serve. The caller closes the store.
   *
   * @throws the system's error if the server cannot listen at the address (`code` `EADDRINUSE`,
   * `EACCES`, …); TypeError or RangeError for an option of the wrong type or out of its range
   * (`NUMBER_OPTIONS`); Error if certificate and key do not belong together.
   */
  static async start(options: ServerOptions): Promise<PlantServer> {
    const listener = new Listener(options);
    const connections = new Connections(listener, options);
    const server = createServer(options, connections, (socket) => listener.clientOn(socket));
    await listen(server, options);
    return new PlantServer(server, connections, options);
  }

  /**
   * Takes another certificate and key for new connections; open connections keep the old pair. Only
   * for a server that was started with `tls`.
   *
   * @throws Error if they do not belong together, and the old pair stays; TypeError if the server
   * speaks plain HTTP.
   */
  replaceCertificate(tls: TlsOptions): void {
    replaceCertificate(this.#server, tls);
  }

  /**
   * Has every answer close its connection from now on, so that clients give up the connections that
   * they keep. New ones are accepted until `close()`. Call it a while before, while a load balancer
   * still sends requests.
   */
  announceClose(): void {
    this.#connections.announceClose();
  }

  /**
   * Drains: answers the requests in flight, closes every connection, stops accepting. Connections
   * that are still open at the deadline are cut. A second call changes nothing.
   *
   * @param drainTimeoutMs the deadline, by default 10,000; 0 cuts at once.
   * @throws TypeError or RangeError if it is no valid time (`NUMBER_OPTIONS`).
   */
  async close(drainTimeoutMs?: number): Promise<void> {
    const timeoutMs = readNumber({ drainTimeoutMs }, "drainTimeoutMs");
    this.#closing ??= this.#drain(timeoutMs);
    return this.#closing;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #drain(drainTimeoutMs: number): Promise<void> {
    this.#connections.drain();
    // New connections wait in a held socket for the next process; a socket of our own resets them.
    if (this.#isSocketHeld) net.Server.prototype.close.call(this.#server);
    const graceMs = Math.min(DRAIN_LOOK_MS, drainTimeoutMs);
    await sleep(graceMs);
    await this.#acceptWaiting();
    for (const socket of this.#connections.handshakes) socket.destroy();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    const deadline = setTimeout(() => this.#connections.cutAll(), drainTimeoutMs - graceMs);
    await closed;
    clearTimeout(deadline);
  }

  /**
   * Connections that wait to be accepted are reset when the server stops listening. Takes at least a
   * turn: Node's close cuts idle connections, so what they have sent by now is read first.
   */
  async #acceptWaiting(): Promise<void> {
    let accepted = 0;
    this.#server.on("connection", () => accepted++);
    for (let turns = 1; turns <= ACCEPT_TURNS_MAX; turns++) {
      const before = accepted;
      await turn();
      if (accepted === before) return;
    }
  }
}

/** Clients that connect without a pause must not keep a server from closing. */
const ACCEPT_TURNS_MAX = 100;

/** @param clientOn see `limitConnections`. @throws as `PlantServer.start`. @internal */
export function createServer(
  options: Numbers & Pick<ServerOptions, "tls" | "connectionCheckIntervalMs">,
  connections: Connections,
  clientOn?: (socket: Socket) => string,
): Server {
  const { tls } = options;
  const requestTimeoutMs = readNumber(options, "requestTimeoutMs");
  const settings = {
    IncomingMessage: isDirectSafe() ? DirectRequest : IncomingMessage,
    maxHeaderSize: readNumber(options, "headerBytesMax"),
    headersTimeout: Math.min(readNumber(options, "headerTimeoutMs"), requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: 0, // http/connections times connections
    connectionsCheckingInterval: options.connectionCheckIntervalMs ?? CONNECTION_CHECK_MS,
    // NODE_OPTIONS=--insecure-http-parser would let one request be read as two.
    insecureHTTPParser: false,
    // Node's own refusal has no body, and it accepts two Host headers.
    requireHostHeader: false,
  };
  const server = tls === undefined ? http.createServer(settings) : createTlsServer(settings, tls);
  if (tls !== undefined) watchHandshakes(server, connections.handshakes);
  limitConnections(server, options, connections.handshakes, clientOn);
  server.maxHeadersCount = NODE_HEADERS_MAX;
  // A client may close its side after its last request and wait for the answer (RFC 9112 section
  // 9.6). Node does not document the switch.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on("listening", () => {
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
  });
  connections.attach(server);
  return server;
}
