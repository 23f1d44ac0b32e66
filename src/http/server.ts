/**
 * Our own HTTP server around the listener: where it listens, its limits, and an orderly end.
 *
 * Invariant: every failure that can still be written has the Error body, also those that Node's
 * parser raises (see http/connections).
 */
import { readFileSync } from "node:fs";
import http, { IncomingMessage, type Server, type ServerResponse } from "node:http";
import net, { type AddressInfo, type Socket } from "node:net";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { getHeapStatistics } from "node:v8";
import { type DropMessage, drops, publishWarning } from "../core/channels.ts";
import { formatHostPort } from "../core/host-port.ts";
import {
  assertDescriptor,
  assertNumber,
  assertText,
  DEFAULT_HOST,
  NUMBER_OPTIONS,
  normalizeBasePath,
  readNumber,
} from "../core/options.ts";
import { Connections } from "./connections.ts";
import { DirectRequest, isDirectSafe } from "./direct-request.ts";
import type { ListenerOptions } from "./listener.ts";
import { NODE_HEADERS_MAX } from "./request-head.ts";
import { createTlsServer, Handshakes, replaceCertificate, type TlsOptions } from "./tls.ts";

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** Default: 8080; 0 picks a free one. */
  readonly port?: number;
  /**
   * The descriptor of a listening socket that this process was given, as systemd's socket activation
   * does (sd_listen_fds(3): the first is 3); then `host` and `port` do not count. Connections that
   * this server did not accept stay in the socket's queue for the next process: a restart refuses
   * none.
   */
  readonly fd?: number;
  /**
   * A handle of Node's that is bound and does not listen yet; then `host` and `port` do not count.
   * @internal
   */
  readonly bound?: object;
}

export interface ServerOptions extends ListenerOptions, ListenOptions {
  /** Serve HTTPS, TLS 1.2 or later, with this certificate; plain HTTP without. */
  readonly tls?: TlsOptions;
  /** Request line and headers together; beyond it 431. Default: 16 KiB. */
  readonly headerBytesMax?: number;
  /** To receive all headers; beyond it 408. Default: 10,000; never more than `requestTimeoutMs`. */
  readonly headerTimeoutMs?: number;
  /** To receive a whole request; beyond it 408. Default: 30,000. */
  readonly requestTimeoutMs?: number;
  /**
   * An idle connection is closed after this, another second, and up to two looks (see
   * `connectionCheckIntervalMs`). Default: 75,000: load balancers are to be the first, after 60 s.
   */
  readonly keepAliveTimeoutMs?: number;
  /**
   * A connection on which nothing moves while an answer is due is cut after this, and up to two
   * looks: the client does not read, or the disk takes longer. Default: 120,000.
   */
  readonly stallTimeoutMs?: number;
  /**
   * Connections that are open at once; further ones are closed. Default: the smaller of what the
   * limit of open files leaves, and of what half of the heap holds at 48 KiB each.
   */
  readonly connectionsMax?: number;
  /** How often connections that are slow or stand still are looked for. Default: 1,000. */
  readonly connectionCheckIntervalMs?: number;
}

/**
 * How long connections live on after the answers began to say `Connection: close`, and then after
 * the last byte that came without making a request whole: what was sent by then is answered.
 */
const DRAIN_GRACE_MS = 100;
/** How long a client may take during a drain to finish a request head that it has begun. */
const DRAIN_HEAD_MS = 2000;

export class PlantServer {
  /** What clients call `{base_url}`. */
  readonly url: string;
  readonly #server: Server;
  readonly #connections: Connections;
  readonly #handshakes: Handshakes | undefined;
  readonly #isSocketHeld: boolean;
  #closing: Promise<void> | undefined;

  private constructor(server: Server, connections: Connections, options: ServerOptions) {
    this.#server = server;
    this.#connections = connections;
    this.#isSocketHeld = options.fd !== undefined;
    if (options.tls !== undefined) this.#handshakes = new Handshakes(server);
    const scheme = options.tls === undefined ? "http" : "https";
    this.url = `${scheme}://${addressOf(server)}${normalizeBasePath(options.basePath ?? "")}`;
  }

  /**
   * Starts to serve. The store stays the caller's to close.
   *
   * @throws the system's error when the address cannot be had (`code` `EADDRINUSE`, `EACCES`, …);
   * TypeError or RangeError for an option of the wrong type or out of its range
   * (`NUMBER_OPTIONS`); Error when certificate and key are no pair.
   */
  static async start(options: ServerOptions): Promise<PlantServer> {
    const lookMs = readNumber(options, "connectionCheckIntervalMs");
    const times = {
      idleMs: readNumber(options, "keepAliveTimeoutMs"),
      stallMs: readNumber(options, "stallTimeoutMs"),
    };
    const connections = new Connections(options, times, lookMs);
    const server = createServer(options, connections, lookMs, await isDirectSafe());
    await listen(server, options);
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
    return new PlantServer(server, connections, options);
  }

  /**
   * Takes another certificate and key for the connections to come; those that are open live on.
   * A server that was started with `tls` only.
   *
   * @throws Error when they are no pair, and the old pair stays; TypeError when the server speaks
   * plain HTTP.
   */
  replaceCertificate(tls: TlsOptions): void {
    replaceCertificate(this.#server, tls);
  }

  /**
   * Drains: answers what is in flight, closes every connection, stops accepting. Connections that
   * are not done by the deadline are cut. A second call changes nothing.
   *
   * @param drainTimeoutMs the deadline, by default 10,000; 0 cuts at once.
   * @throws TypeError or RangeError when it is no time (`NUMBER_OPTIONS`).
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
    const start = performance.now();
    const deadline = setTimeout(() => this.#connections.cutAll(), drainTimeoutMs);
    this.#connections.closeAfterAnswers();
    // New connections wait in a held socket for the next process; a socket of our own resets them.
    if (this.#isSocketHeld) net.Server.prototype.close.call(this.#server);
    this.#connections.closeQuiet(); // none yet: what came before does not count
    await sleep(Math.min(DRAIN_GRACE_MS, drainTimeoutMs));
    await turn();
    this.#connections.closeQuiet();
    this.#handshakes?.closeAll();
    const looking = setInterval(async () => {
      await turn();
      this.#connections.closeQuiet(performance.now() - start > DRAIN_HEAD_MS);
    }, DRAIN_GRACE_MS);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    // The deadline may have come before the last connections did.
    if (performance.now() - start >= drainTimeoutMs) this.#connections.cutAll();
    await closed;
    clearInterval(looking);
    clearTimeout(deadline);
  }
}

function createServer(
  options: ServerOptions,
  connections: Connections,
  lookMs: number,
  isDirect: boolean,
): Server {
  const { tls } = options;
  const requestTimeoutMs = readNumber(options, "requestTimeoutMs");
  const settings = {
    IncomingMessage: isDirect ? DirectRequest : IncomingMessage,
    maxHeaderSize: readNumber(options, "headerBytesMax"),
    headersTimeout: Math.min(readNumber(options, "headerTimeoutMs"), requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: 0, // http/connections has timers of its own
    connectionsCheckingInterval: lookMs,
    // NODE_OPTIONS=--insecure-http-parser would let one request be read as two.
    insecureHTTPParser: false,
    // Node's own refusal has no body, and two Host headers it accepts.
    requireHostHeader: false,
  };
  const server = tls === undefined ? http.createServer(settings) : createTlsServer(settings, tls);
  const connectionBytes =
    CONNECTION_BYTES + settings.maxHeaderSize + (tls === undefined ? 0 : TLS_BYTES);
  boundConnections(server, options.connectionsMax, connectionBytes);
  server.maxHeadersCount = NODE_HEADERS_MAX;
  // A client that has sent all it wants to may close its side and wait for the answer
  // (RFC 9112 section 9.6). Node does not document the switch.
  Object.assign(server, { httpAllowHalfOpen: true });
  const connected = tls === undefined ? "connection" : "secureConnection";
  server.on(connected, (socket: Socket) => connections.add(socket));
  server.on("request", (req, res) => connections.handle(req, res));
  // An unknown expectation: the listener says 417 when its turn comes.
  server.on("checkExpectation", (req, res) => connections.handle(req, res));
  server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
    connections.handle(req, res, () => res.writeContinue());
  });
  server.on("connect", (req, socket: Socket) => void connections.refuseConnect(req, socket));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    connections.refuse(socket as Socket, error);
  });
  return server;
}

/**
 * Connections that wait to be accepted, as many as Linux permits by default (net.core.somaxconn).
 * With Node's own 511, the rest of a thousand that come at once wait a second for their next try.
 */
const BACKLOG = 4096;

async function listen(server: Server, options: ListenOptions): Promise<void> {
  const { host = DEFAULT_HOST, fd, bound } = options;
  assertText("host", host);
  const port = readNumber(options, "port");
  assertDescriptor("fd", fd);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    const where = fd === undefined ? { host, port } : { fd };
    const onListening = () => {
      server.off("error", reject);
      resolve();
    };
    if (bound === undefined) server.listen({ ...where, backlog: BACKLOG }, onListening);
    else server.listen(bound, BACKLOG, onListening);
  });
}

/** `127.0.0.1:8080`, `[::1]:8080`; `localhost` if the socket has no such address (unix(7)). */
function addressOf(server: Server): string {
  const address = server.address() as AddressInfo | string | null;
  if (address === null || typeof address === "string") return "localhost";
  return formatHostPort(address.address, address.port);
}

/** What a connection holds in memory at worst, besides the head of a request (measured). */
const CONNECTION_BYTES = 32 * 1024;
/** What OpenSSL holds for a connection, by Node's reckoning. */
const TLS_BYTES = 50 * 1024;
/** Descriptors for everything but connections: the log, the admin listener's 100, Node's own. */
const RESERVED_FILES = 160;
/** How often connections that are closed at once are warned about. */
const DROP_WARNING_MS = 60_000;

/**
 * How many connections a process can hold: with what is left of its descriptors (half of them at
 * least), and in half of its heap.
 *
 * @param limits the text of `/proc/self/limits`; empty if the system has no such file.
 * @param connectionBytes what each holds at worst.
 * @internal
 */
export function connectionsThatFit(
  limits: string,
  heapBytes: number,
  connectionBytes: number,
): number {
  const files = Number(/^Max open files +([0-9]+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
  const byFiles = files - Math.min(RESERVED_FILES, Math.ceil(files / 2));
  const byHeap = Math.floor(heapBytes / 2 / connectionBytes);
  return Math.max(1, Math.min(byFiles, byHeap, NUMBER_OPTIONS.connectionsMax.max));
}

function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    return "";
  }
}

/** Bounds how many connections a server has open, TLS handshakes included: it closes further ones. */
function boundConnections(
  server: Server,
  wanted: number | undefined,
  connectionBytes: number,
): void {
  const heapBytes = getHeapStatistics().heap_size_limit;
  const most = wanted ?? connectionsThatFit(readLimits(), heapBytes, connectionBytes);
  assertNumber("connectionsMax", most);
  const message: DropMessage = { connectionsMax: most };
  server.maxConnections = most;
  let dropped = 0;
  let warnedAt = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    dropped++;
    if (drops.hasSubscribers) drops.publish(message);
    const now = performance.now();
    if (now - warnedAt < DROP_WARNING_MS) return;
    publishWarning(
      `Closed new connections because ${most} are open (connectionsMax): ${dropped} so far`,
    );
    warnedAt = now;
  });
}
