/**
 * Our own HTTP server around the listener: its limits, its address, its certificate, its start and its orderly end.
 *
 * Invariant. A certificate and a key that do not match are refused before anything changes, and open connections
 * keep the certificate they began with.
 */
import { constants, createPrivateKey, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import http, { type Server } from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { getHeapStatistics } from "node:v8";
import { publishWarning } from "../core/channels.ts";
import { assertNumbers, checkBasePath, DEFAULT_HOST, NUMBER_OPTIONS } from "../core/options.ts";
import { formatHostPort } from "../core/text.ts";
import { memoryLeft } from "../memory.ts";
import { Connections } from "./connections.ts";
import { HEADERS_MAX } from "./head.ts";
import { Listener, type ListenerOptions } from "./listener.ts";
import { DirectRequest } from "./node-internals.ts";

export interface ServerOptions extends ListenerOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** Default: 8080; 0 picks a free one. */
  readonly port?: number | undefined;
  /** Serve HTTPS, TLS 1.2 or later, with this certificate. Default: plain HTTP. */
  readonly tls?: TlsOptions | undefined;
  /** The time to send a whole request, its headers within 10 s; then 408. Default: 30,000. */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * A connection on which nothing moved for so long is closed, unless a request on it is carried out. Default:
   * 75,000, more than the 60 s after which load balancers close.
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /**
   * Connections that are open at once. If one more comes, the client with the most loses old ones; all without
   * a good token are one client. Default: what the limit of open files and half of the memory or heap allow, at
   * 48 KiB each, or 250 KiB with TLS.
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
    const { address, port } = server.address() as AddressInfo;
    const origin = `${options.tls ? "https" : "http"}://${formatHostPort(address, port)}`;
    this.url = origin + checkBasePath(options.basePath ?? "");
  }

  /**
   * Starts to serve. The caller closes the store.
   *
   * @throws the system's error if the server cannot listen at the address (`code` `EADDRINUSE`, `EACCES`, …);
   * TypeError or RangeError for an option that is not possible (`NUMBER_OPTIONS`); Error if certificate and key
   * do not belong together.
   */
  static async start(options: ServerOptions): Promise<PlantServer> {
    const listener = new Listener(options);
    const { tls, host = DEFAULT_HOST, port = NUMBER_OPTIONS.port.default } = options;
    const { connectionsMax = defaultConnectionsMax(tls !== undefined) } = options;
    const { requestTimeoutMs: requestTimeout = NUMBER_OPTIONS.requestTimeoutMs.default } = options;
    const { keepAliveTimeoutMs = NUMBER_OPTIONS.keepAliveTimeoutMs.default } = options;
    const headersTimeout = Math.min(10_000, requestTimeout);
    const timeouts = { requestTimeout, headersTimeout, handshakeTimeout: headersTimeout };
    const settings = { ...SETTINGS, ...timeouts };
    const server = tls
      ? https.createServer({ ...settings, ...secureContextOf(tls) })
      : http.createServer(settings);
    server.maxHeadersCount = HEADERS_MAX + 1; // Node drops further ones silently
    server.closeIdleConnections = () => {}; // it would cut a response that its client reads slowly
    // As Linux permits by default: with Node's own 511, some of a thousand that arrive at once wait a second.
    server.listen({ host, port, backlog: 4096 });
    await once(server, "listening");
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
    const connections = new Connections(server, listener, connectionsMax, keepAliveTimeoutMs);
    return new PlantServer(server, connections, options);
  }

  /**
   * Takes another certificate and key for new connections.
   *
   * @throws Error if they do not belong together, and the old pair stays; TypeError without `tls`.
   */
  replaceCertificate(tls: TlsOptions): void {
    if (!(this.#server instanceof https.Server)) {
      throw new TypeError("Cannot replace the certificate: the server was started without one");
    }
    this.#server.setSecureContext(secureContextOf(tls));
  }

  /**
   * Drains: responds to the requests in flight, closes every connection, stops accepting. Connections that are
   * still open at the deadline are cut. A second call changes nothing.
   *
   * @param drainTimeoutMs the deadline, by default 10,000; 0 cuts at once.
   * @throws RangeError if it is no valid time (`NUMBER_OPTIONS`).
   */
  async close(drainTimeoutMs: number = NUMBER_OPTIONS.drainTimeoutMs.default): Promise<void> {
    assertNumbers({ drainTimeoutMs });
    this.#closing ??= this.#drain(drainTimeoutMs);
    return this.#closing;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #drain(drainTimeoutMs: number): Promise<void> {
    this.#connections.drain();
    const graceMs = Math.min(100, drainTimeoutMs);
    await sleep(graceMs); // what was sent by now is read
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#connections.close(false);
    const cutting = setTimeout(() => this.#connections.close(true), drainTimeoutMs - graceMs);
    await closed;
    clearTimeout(cutting);
    await turn(); // requests that were cut are published
  }
}

const SETTINGS: https.ServerOptions = {
  maxHeaderSize: 16 * 1024, // request line and headers together
  connectionsCheckingInterval: 1000, // of slow requests
  // http/connections closes idle connections: a timer of Node's for each request takes 15 % of a create.
  keepAliveTimeout: 0,
  noDelay: true, // the default without TLS
  insecureHTTPParser: false, // NODE_OPTIONS could let one request be read as two
  requireHostHeader: false, // Node's own refusal has no body
  joinDuplicateHeaders: true,
  IncomingMessage: DirectRequest,
};

/** Memory of a connection at worst (measured); with TLS during its handshake. */
const CONNECTION_BYTES = { plain: 48 * 1024, tls: 250 * 1024 };
/** Descriptors for the log, the admin listener, and Node itself. */
const RESERVED_FILES = 160;

function defaultConnectionsMax(isTls: boolean): number {
  const bytes = Math.min(getHeapStatistics().heap_size_limit, memoryLeft()) / 2;
  const byBytes = Math.floor(bytes / (isTls ? CONNECTION_BYTES.tls : CONNECTION_BYTES.plain));
  return Math.max(16, Math.min(readFilesMax() - RESERVED_FILES, byBytes));
}

/** How many files the process may have open. */
function readFilesMax(): number {
  const path = "/proc/self/limits";
  const limits = existsSync(path) ? readFileSync(path, "latin1") : "";
  return Number(/^Max open files +([0-9]+)/m.exec(limits)?.[1]) || Number.POSITIVE_INFINITY;
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
  "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:ECDHE+AESGCM:ECDHE+CHACHA20";

/** @throws Error if certificate and key do not match. */
function secureContextOf({ cert, key }: TlsOptions) {
  // Node takes a key of another kind, and an empty one as none.
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
    throw new Error("Cannot use the certificate: the key belongs to another one");
  }
  // Older versions of the protocol are broken (RFC 8996), and a second handshake would hold memory.
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
  return { cert, key, minVersion: "TLSv1.2", ciphers: CIPHERS, secureOptions } as const;
}
