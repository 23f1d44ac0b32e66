/**
 * Our own HTTP server around the listener: its limits, where it listens, its certificate, its start and its
 * orderly end.
 *
 * Invariants. Every failure that can still be written has the Error body, including the faults that Node's
 * parser raises (see http/connections). A certificate and a key that do not match are refused before
 * anything changes, and open connections keep the certificate they began with.
 */
import { constants, createPrivateKey, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http, { type Server } from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { createSecureContext } from "node:tls";
import { getHeapStatistics } from "node:v8";
import { publishWarning } from "../core/channels.ts";
import {
  assertNumber,
  checkBasePath,
  DEFAULT_HOST,
  NUMBER_OPTIONS,
  type Numbers,
  readNumber,
} from "../core/options.ts";
import { formatHostPort } from "../core/text.ts";
import { totalMemory } from "../memory.ts";
import { Budget, Lease, NO_TOKEN } from "./body.ts";
import { CONNECTION_CHECK_MS, Connections, DRAIN_LOOK_MS } from "./connections.ts";
import { NODE_HEADERS_MAX } from "./head.ts";
import { Listener, type ListenerOptions } from "./listener.ts";
import { serverSettings, socketUnder } from "./node-internals.ts";

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
}

export class PlantServer {
  /** What clients call `{base_url}`. */
  readonly url: string;
  readonly #server: Server;
  readonly #connections: Connections;
  #closing: Promise<void> | undefined;

  private constructor(server: Server, connections: Connections, options: ServerOptions) {
    this.#server = server;
    this.#connections = connections;
    const scheme = options.tls === undefined ? "http" : "https";
    this.url = `${scheme}://${addressOf(server)}${checkBasePath(options.basePath ?? "")}`;
  }

  /**
   * Starts to serve. The caller closes the store.
   *
   * @throws the system's error if the server cannot listen at the address (`code` `EADDRINUSE`,
   * `EACCES`, …); RangeError for an option out of its range
   * (`NUMBER_OPTIONS`); Error if certificate and key do not belong together.
   */
  static async start(options: ServerOptions): Promise<PlantServer> {
    const listener = new Listener(options);
    const connections = new Connections(listener, options);
    const server = createServer(options, connections, listener);
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
    if (!(this.#server instanceof https.Server)) {
      throw new TypeError("Cannot replace the certificate: the server was started without one");
    }
    this.#server.setSecureContext(secureContextOf(tls));
  }

  /**
   * Drains: answers the requests in flight, closes every connection, stops accepting. Connections
   * that are still open at the deadline are cut. A second call changes nothing.
   *
   * @param drainTimeoutMs the deadline, by default 10,000; 0 cuts at once.
   * @throws RangeError if it is no valid time (`NUMBER_OPTIONS`).
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
    const graceMs = Math.min(DRAIN_LOOK_MS, drainTimeoutMs);
    await sleep(graceMs);
    await this.#acceptWaiting();
    for (const socket of this.#connections.handshakes) socket.destroy();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    const deadline = setTimeout(() => this.#connections.cutAll(), drainTimeoutMs - graceMs);
    await closed;
    clearTimeout(deadline);
    await turn(); // requests that were cut are published
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

/** @throws as `PlantServer.start`. */
function createServer(
  options: Numbers & Pick<ServerOptions, "tls">,
  connections: Connections,
  listener: Listener,
): Server {
  const { tls } = options;
  const requestTimeoutMs = readNumber(options, "requestTimeoutMs");
  const settings = {
    ...serverSettings(readNumber(options, "keepAliveTimeoutMs")),
    maxHeaderSize: readNumber(options, "headerBytesMax"),
    headersTimeout: Math.min(readNumber(options, "headerTimeoutMs"), requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: CONNECTION_CHECK_MS,
    // NODE_OPTIONS=--insecure-http-parser would let one request be read as two.
    insecureHTTPParser: false,
    // Node's own refusal has no body, and it accepts two Host headers.
    requireHostHeader: false,
  };
  const server = tls === undefined ? http.createServer(settings) : createTlsServer(settings, tls);
  if (tls !== undefined) watchHandshakes(server, connections.handshakes);
  limitConnections(server, options, connections.handshakes, listener);
  server.maxHeadersCount = NODE_HEADERS_MAX;
  server.on("listening", () => {
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
  });
  connections.attach(server);
  return server;
}

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** Default: 8080; 0 picks a free one. */
  readonly port?: number | undefined;
}

/**
 * Connections that wait to be accepted, as many as Linux permits by default (net.core.somaxconn).
 * With Node's own 511, the rest of a thousand that arrive at once wait a second for their next try.
 */
const BACKLOG = 4096;

/**
 * @throws the system's error if the server cannot listen there; RangeError for a port out of its range.
 */
async function listen(server: Server, options: ListenOptions): Promise<void> {
  const { host = DEFAULT_HOST } = options;
  const port = readNumber(options, "port");
  server.listen({ host, port, backlog: BACKLOG });
  await once(server, "listening");
}

/** Of a server that listens: `127.0.0.1:8080`, `[::1]:8080`. */
function addressOf(server: Server): string {
  const { address, port } = server.address() as AddressInfo;
  return formatHostPort(address, port);
}

/** Memory of a connection at worst, without the head of a request (measured). */
const CONNECTION_BYTES = 32 * 1024;
/** What TLS adds (measured). */
const TLS_BYTES = 68 * 1024;
/** What an unfinished handshake adds to that: OpenSSL collects a hello of up to 128 KiB (measured). */
const HANDSHAKE_BYTES = 134 * 1024;
/** Descriptors for the log, the 100 connections of the admin listener, and Node itself. */
const RESERVED_FILES = 160;
/** How often closed connections are warned about. */
const DROP_WARNING_MS = 60_000;

/**
 * How many connections a process can hold: with the rest of its descriptors, at least half of them,
 * and in half of its heap.
 *
 * @param files that the process may have open.
 * @param eachBytes memory of a connection at worst.
 * @internal
 */
export function connectionsThatFit(files: number, heapBytes: number, eachBytes: number): number {
  const byFiles = files - Math.min(RESERVED_FILES, Math.ceil(files / 2));
  const byHeap = Math.floor(heapBytes / 2 / eachBytes);
  return Math.max(1, Math.min(byFiles, byHeap, NUMBER_OPTIONS.connectionsMax.max));
}

/** How many files the process may have open; `undefined` if that is unlimited or unknown. */
function readFilesMax(): number | undefined {
  try {
    const limits = readFileSync("/proc/self/limits", "latin1");
    return Number(/^Max open files +([0-9]+)/m.exec(limits)?.[1]) || undefined;
  } catch {
    return undefined;
  }
}

/** What is left for connections in a container that is smaller than the process. */
const MEMORY_LEFT_MIN = 16 * 1024 * 1024;
/** What a process has after its start (measured). */
const START_BYTES = 64 * 1024 * 1024;

function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return START_BYTES; // there is no /proc
  }
}

/**
 * Limits how many connections a server has open, TLS handshakes included, so that no client takes all.
 * For a new one makes room: if more than half show no good token, the oldest of those, because a good client
 * shows its token at once; else the oldest that its token may not keep, by the rule of http/body; else
 * the oldest without a token.
 *
 * @param handshakes what `watchHandshakes` keeps.
 * @throws RangeError for a number out of its range.
 */
function limitConnections(
  server: Server,
  options: Numbers,
  handshakes: Set<Socket>,
  listener: Listener,
): void {
  const tlsBytes = server instanceof https.Server ? TLS_BYTES : 0;
  const eachBytes = CONNECTION_BYTES + readNumber(options, "headerBytesMax") + tlsBytes;
  const bytesLeft = Math.max(MEMORY_LEFT_MIN, totalMemory() - residentBytes());
  const heapBytes = Math.min(getHeapStatistics().heap_size_limit, bytesLeft);
  const files = readFilesMax() ?? Number.POSITIVE_INFINITY;
  const { connectionsMax = connectionsThatFit(files, heapBytes, eachBytes) } = options;
  assertNumber("connectionsMax", connectionsMax);
  const bytesMax = Math.max(heapBytes / 2, connectionsMax * eachBytes);
  /** From accepted sockets to those of their requests (TLS has its own), oldest first; some may show a token. */
  const unchecked = new Map<Socket, Socket>();
  /** Those that showed a token, oldest first, while nobody needs to know whether it may keep them. */
  const known = new Map<Socket, Lease>();
  const kept = new Map<Socket, Lease>();
  const places = new Budget(connectionsMax);
  const hasRoom = () => {
    const open = unchecked.size + known.size + kept.size;
    const bytes = open * eachBytes + handshakes.size * HANDSHAKE_BYTES;
    return open <= connectionsMax && bytes <= bytesMax;
  };
  let dropped = 0;
  let warnedAt = Number.NEGATIVE_INFINITY;
  const drop = (socket: Socket) => {
    handshakes.delete(socket);
    socket.destroy();
    dropped++;
    if (performance.now() - warnedAt < DROP_WARNING_MS) return;
    warnedAt = performance.now();
    publishWarning(
      `Closed connections at ${addressOf(server)} because there is room for ${connectionsMax} ` +
        `(connectionsMax), those that never showed a good token first: ${dropped} so far; ` +
        "find out who opens so many, or permit more open files and memory",
    );
  };
  const makeRoom = () => {
    for (const [oldest, ofRequests] of unchecked) {
      const client = listener.senderOn(ofRequests);
      const areMost = unchecked.size > connectionsMax / 2;
      if (client === NO_TOKEN && !areMost) break;
      unchecked.delete(oldest);
      if (client === NO_TOKEN) return drop(oldest);
      known.set(oldest, new Lease(places, client));
    }
    for (const [oldest, place] of known) {
      known.delete(oldest);
      if (!place.hold(1)) return drop(oldest);
      kept.set(oldest, place);
    }
    const [oldest] = unchecked.keys();
    unchecked.delete(oldest as Socket);
    drop(oldest as Socket);
  };
  server.on("connection", (socket: Socket) => {
    unchecked.set(socket, socket);
    socket.once("close", () => {
      kept.get(socket)?.hold(0);
      for (const sockets of [unchecked, known, kept]) sockets.delete(socket);
    });
    while (!hasRoom()) makeRoom();
  });
  server.on("secureConnection", (socket: Socket) => {
    const under = socketUnder(socket) as Socket;
    if (unchecked.has(under)) unchecked.set(under, socket); // in its old place
  });
}

/** A certificate and its private key, both as PEM. */
export interface TlsOptions {
  /** The server's certificate, followed by the intermediate ones. */
  readonly cert: string | Buffer;
  /** The private key of that certificate, not encrypted. */
  readonly key: string | Buffer;
}

/**
 * All of TLS 1.3; of TLS 1.2 the ciphers with forward secrecy and authenticated encryption, as in
 * Mozilla's intermediate configuration: recorded traffic stays secret if the key is stolen later.
 */
const CIPHERS =
  "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:" +
  "ECDHE+AESGCM:ECDHE+CHACHA20";

/** It holds the memory of its hello. */
const HANDSHAKE_MS_MAX = 10_000;

/** @throws Error if certificate and key do not match. @internal */
export function createTlsServer(settings: http.ServerOptions, tls: TlsOptions): Server {
  return https.createServer({
    ...settings,
    ...secureContextOf(tls),
    handshakeTimeout: Math.min(settings.headersTimeout ?? HANDSHAKE_MS_MAX, HANDSHAKE_MS_MAX),
    noDelay: true, // node:http sets it for plain connections
  } as https.ServerOptions);
}

/** @throws Error as `createTlsServer`. */
function secureContextOf({ cert, key }: TlsOptions) {
  // Older versions of the protocol are broken (RFC 8996), and a second handshake would hold memory.
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
  const context = { cert, key, minVersion: "TLSv1.2", ciphers: CIPHERS, secureOptions } as const;
  try {
    // Node itself takes an empty key or certificate for none.
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
      throw new Error("the key belongs to another certificate");
    }
    createSecureContext(context); // throws before a server takes half of a bad pair
  } catch (cause) {
    const reason = (cause as Error).message;
    throw new Error(`Cannot use the certificate and its key: ${reason}`, { cause });
  }
  return context;
}

/** A client may ask for new keys instead of sending requests; each time costs as much as a small request. */
const KEY_UPDATES_MAX = 16;

/** Closes a connection whose client changes its keys that often. */
function limitKeyUpdates(): (line: Buffer, socket: Socket) => void {
  const updates = new WeakMap<Socket, number>();
  return (line, socket) => {
    if (!line.includes("CLIENT_TRAFFIC_SECRET_N")) return; // those of the handshake end with a 0
    const count = (updates.get(socket) ?? 0) + 1;
    updates.set(socket, count);
    if (count >= KEY_UPDATES_MAX) socket.destroy();
  };
}

/** Keeps the set of connections that are still shaking hands, which the HTTP server does not know. @internal */
export function watchHandshakes(server: Server, sockets: Set<Socket>): void {
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("secureConnection", (socket: Socket) => {
    const under = socketUnder(socket);
    if (under === undefined)
      sockets.clear(); // it is not known which
    else sockets.delete(under);
  });
  server.on("keylog", limitKeyUpdates());
  server.on("tlsClientError", (_error, socket: Socket) => void socket.destroy());
}
