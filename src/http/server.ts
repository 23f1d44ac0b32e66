/**
 * Our own HTTP server around the listener: limits, the parser's refusals, and
 * an orderly end.
 *
 * Invariants. Every failure that can still be written has the Error body, also
 * those that Node's parser raises. Answers leave in the order of their
 * requests: a refusal of what was pipelined behind a good request waits for
 * that one's answer. Nothing behind a refused request is carried out.
 */
import http, { type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { readNumber } from "../core/options.ts";
import { afterAnswer, answerAndClose, answerSocket, closeAfter, isLastAnswer } from "./answer.ts";
import { Authenticator } from "./bearer.ts";
import { DirectRequest } from "./direct-request.ts";
import { describeParserFault, findFramingFault } from "./framing.ts";
import { addressOf, type ListenOptions, listen, stopAccepting } from "./listen.ts";
import { createHandler, type Handler, type ListenerOptions } from "./listener.ts";
import { errorReply } from "./reply.ts";
import { normalizeBasePath } from "./router.ts";
import { createTlsServer, Handshakes, replaceCertificate, type TlsOptions } from "./tls.ts";

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
   * An idle connection is closed after this. Default: 75,000, because load
   * balancers close theirs after 60 s and must be the first to do so.
   */
  readonly keepAliveTimeoutMs?: number;
  /**
   * A connection on which nothing moves while an answer is due is cut after
   * this: the client does not read, or its create waits longer than this for
   * the disk, and is to be repeated. Default: 120,000.
   */
  readonly stallTimeoutMs?: number;
  /** How often slow connections are looked for. Default: 1,000. */
  readonly connectionCheckIntervalMs?: number;
}

/**
 * How long connections live on after the answers began to say
 * `Connection: close`: what was sent by then is answered, not reset.
 */
const DRAIN_GRACE_MS = 100;

/**
 * More requests than this never wait for their answers on one connection: each
 * costs some 6 KiB, and Node reads on while the first of them is carried out.
 */
const UNANSWERED_MAX = 1000;
/** For the answers before the last one to be read. */
const UNANSWERED_GRACE_MS = 1000;

/** What is known of a connection: the exchange that began last on it. */
interface Connection {
  /** Requests whose answers are not sent yet. */
  unanswered: number;
  req?: IncomingMessage;
  res?: ServerResponse;
  /** The parser gave up; it reports the same fault again for whatever still comes. */
  isBroken: boolean;
}

/**
 * A server of our own: the listener, and the limits and answers that the
 * listener in somebody else's server leaves to that one.
 */
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
   * @throws the system's error when the address cannot be had (`code`
   * `EADDRINUSE`, `EACCES`, …); TypeError or RangeError for an option of the
   * wrong type or out of its range (`NUMBER_OPTIONS`); Error when certificate
   * and key are no pair.
   */
  static async start(options: ServerOptions): Promise<PlantServer> {
    const connections = new Connections(options);
    const server = createServer(options, connections);
    await listen(server, options);
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
    return new PlantServer(server, connections, options);
  }

  /**
   * Takes another certificate and key for the connections to come; those that
   * are open live on. A server that was started with `tls` only.
   *
   * @throws Error when they are no pair, and the old pair stays;
   * TypeError when the server speaks plain HTTP.
   */
  replaceCertificate(tls: TlsOptions): void {
    replaceCertificate(this.#server, tls);
  }

  /**
   * Drains: answers what is in flight, closes every connection, stops
   * accepting. Connections that are not done by the deadline are cut.
   *
   * @param drainTimeoutMs the deadline, by default 10,000; 0 cuts at once. A
   * second call changes nothing.
   * @throws TypeError or RangeError when it is no time (`NUMBER_OPTIONS`).
   */
  async close(drainTimeoutMs?: number): Promise<void> {
    const timeoutMs = readNumber("drainTimeoutMs", drainTimeoutMs);
    this.#closing ??= this.#drain(timeoutMs);
    return this.#closing;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #drain(drainTimeoutMs: number): Promise<void> {
    const deadline = setTimeout(() => this.#server.closeAllConnections(), drainTimeoutMs);
    this.#connections.closeAfterAnswers();
    // What comes from now on waits for the next process; a socket of our own resets its queue.
    if (this.#isSocketHeld) stopAccepting(this.#server);
    await new Promise((resolve) => setTimeout(resolve, Math.min(DRAIN_GRACE_MS, drainTimeoutMs)));
    this.#connections.closeSilent();
    this.#handshakes?.closeAll();
    await new Promise((resolve) => this.#server.close(resolve));
    clearTimeout(deadline);
  }
}

function createServer(options: ServerOptions, connections: Connections): Server {
  const { tls } = options;
  const requestTimeoutMs = readNumber("requestTimeoutMs", options.requestTimeoutMs);
  const settings = {
    IncomingMessage: DirectRequest,
    maxHeaderSize: readNumber("headerBytesMax", options.headerBytesMax),
    headersTimeout: Math.min(
      readNumber("headerTimeoutMs", options.headerTimeoutMs),
      requestTimeoutMs,
    ),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: readNumber("keepAliveTimeoutMs", options.keepAliveTimeoutMs),
    connectionsCheckingInterval: readNumber(
      "connectionCheckIntervalMs",
      options.connectionCheckIntervalMs,
    ),
    // Node's own refusal has no body, and two Host headers it accepts.
    requireHostHeader: false,
  };
  const server = tls === undefined ? http.createServer(settings) : createTlsServer(settings, tls);
  // Node drops the headers behind the 2,000th in silence; their bytes are bounded already.
  server.maxHeadersCount = 0;
  server.timeout = readNumber("stallTimeoutMs", options.stallTimeoutMs);
  // A client that has sent all it wants to may close its side and wait for the answer
  // (RFC 9112 section 9.6). Node has the switch, but no word about it in its documentation.
  Object.assign(server, { httpAllowHalfOpen: true });
  const connected = tls === undefined ? "connection" : "secureConnection";
  server.on(connected, (socket: Socket) => connections.add(socket));
  server.on("request", (req, res) => connections.handle(req, res));
  // An unknown expectation: the listener says 417 when its turn comes.
  server.on("checkExpectation", (req, res) => connections.handle(req, res));
  server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
    connections.handle(req, res, () => res.writeContinue());
  });
  server.on("connect", (req, socket: Socket) => {
    // Node lets go of the socket, and with it of the time it gives one.
    socket.setTimeout(server.timeout, () => socket.destroy());
    void connections.refuseConnect(req, socket);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    connections.refuse(socket as Socket, error);
  });
  return server;
}

/** The open connections of a server, and what is still carried out on each. */
class Connections {
  readonly #authenticator: Authenticator;
  readonly #handle: Handler;
  readonly #connections = new Map<Socket, Connection>();
  #isDraining = false;

  constructor(options: ListenerOptions) {
    this.#authenticator = new Authenticator(options.tokens);
    this.#handle = createHandler(options);
  }

  add(socket: Socket): void {
    this.#connections.set(socket, { unanswered: 0, isBroken: false });
    socket.once("close", () => this.#connections.delete(socket));
  }

  handle(req: IncomingMessage, res: ServerResponse, sendContinue?: () => void): void {
    const connection = this.#connections.get(req.socket);
    // Behind an answer that closes the connection nothing is carried out.
    if (connection === undefined || isLastAnswer(connection.res)) return;
    connection.req = req;
    connection.res = res;
    this.#countUnanswered(connection, req.socket, res);
    if (this.#isDraining) closeAfter(res);
    const fault = findFramingFault(req);
    if (fault === undefined) this.#handle(req, res, sendContinue);
    else answerAndClose(req, res, errorReply(fault));
  }

  /** Ends a connection on which requests come and come while their answers are not read. */
  #countUnanswered(connection: Connection, socket: Socket, res: ServerResponse): void {
    connection.unanswered++;
    res.once("close", () => connection.unanswered--);
    if (connection.unanswered < UNANSWERED_MAX) return;
    closeAfter(res);
    setTimeout(() => socket.destroy(), UNANSWERED_GRACE_MS).unref();
  }

  /** The parser gave up on what came last, or the time for it ran out. */
  refuse(socket: Socket, cause: NodeJS.ErrnoException): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.isBroken) return;
    connection.isBroken = true;
    const fault = describeParserFault(cause);
    if (fault === undefined || !socket.writable) {
      socket.destroy();
      return;
    }
    const { req, res } = connection;
    const isInBody = req?.complete === false;
    // What follows the answer that closes the connection does not count.
    if (isLastAnswer(res) && (res?.headersSent === true || !isInBody)) return;
    if (req === undefined || res === undefined || !isInBody) {
      afterAnswer(res, () => answerSocket(socket, errorReply(fault)));
    } else if (res.headersSent) {
      socket.destroy();
    } else {
      // The fault is in this request's body; its answer has its place in the order.
      answerAndClose(req, res, errorReply(fault));
    }
  }

  /** CONNECT names no path of ours, so beyond the token there is nothing to find. */
  async refuseConnect(req: IncomingMessage, socket: Socket): Promise<void> {
    socket.on("error", () => socket.destroy()); // the parser has let go of the socket
    const fault = findFramingFault(req) ?? (await this.#judgeConnect(req));
    const res = this.#connections.get(socket)?.res;
    afterAnswer(res, () => answerSocket(socket, errorReply(fault), req));
  }

  async #judgeConnect(req: IncomingMessage): Promise<unknown> {
    try {
      await this.#authenticator.authenticate(req);
    } catch (error) {
      return error;
    }
    return new PlantStoreError("not_found", "CONNECT: expected a request for a plant store");
  }

  /** Closes what never sent anything: Node counts such a connection as busy. */
  closeSilent(): void {
    for (const [socket, { req }] of this.#connections) {
      if (req === undefined && socket.bytesRead === 0) socket.destroy();
    }
  }

  /** From now on the last answer of each connection closes it. */
  closeAfterAnswers(): void {
    this.#isDraining = true;
    for (const { res } of this.#connections.values()) closeAfter(res);
  }
}
