/**
 * The open connections of our own server: which requests are carried out on each, how many may wait,
 * how long nothing may move, and how connections end when the server stops.
 *
 * Invariants. Answers leave in the order of their requests: the refusal of a pipelined request waits
 * for the answers to the good requests before it. After an answer that closes the connection no
 * request is carried out, and at most one more is kept in memory.
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import tls from "node:tls";
import type { PlantStoreError } from "../core/errors.ts";
import { type Numbers, readNumber } from "../core/options.ts";
import { afterAnswer, closeAfter, isLastAnswer } from "./answer.ts";
import { Budget, Lease, overloaded } from "./body.ts";
import { describeParserFault, readHead } from "./head.ts";
import type { Listener } from "./listener.ts";
import { advertiseIdleTime, DirectRequest, ignoreFollowing } from "./node-internals.ts";

/** How long nothing may move between two requests, and before the first or while an answer is due. */
type Limits = Readonly<{ idleMs: number; stallMs: number }>;

/**
 * A connection on which nothing moves while an answer is due is cut after this and up to two looks: the
 * client does not read, or the disk takes longer. Twice the 60 s after which proxies give up.
 */
const STALL_MS = 120_000;

/** How often slow requests and still connections are looked for; the times that are watched are seconds. */
export const CONNECTION_CHECK_MS = 1000;

/** Node's own margin: a client that sends within the advertised time never meets the close. */
const IDLE_MARGIN_MS = 1000;

/** A connection whose waiting requests hold more is not read until answers leave. */
const WAITING_BYTES_MAX = 64 * 1024;

/** Of each connection. No ordinary client sends so many ahead, and those of a few would keep everybody waiting. */
const UNANSWERED_MAX = 16;

/** The headers that an answer needs once the head of its request was judged. */
const KEPT_HEADERS = [
  "connection",
  "x-request-id",
  "content-length",
  "transfer-encoding",
  "expect",
];

/**
 * Between two looks during a drain. A connection that owes no answer closes at the first look that
 * finds nothing new on it: what was sent by then is answered.
 */
export const DRAIN_LOOK_MS = 100;
/** A client may take 2 s during a drain to finish a request head. */
const DRAIN_LOOKS = 20;

/** The statuses of answers that need no good token: to a bad one, and to a preflight. */
const TOKENLESS: ReadonlySet<number | undefined> = new Set([401, 204]);

/** All connections of a server: what a mounted listener leaves to the server around it. */
export class Connections {
  /** The sockets that are still shaking hands, under TLS. */
  readonly handshakes = new Set<Socket>();
  readonly #handler: Listener;
  readonly #limits: Limits;
  readonly #connections = new Map<Socket, Connection>();
  /** Lent to requests that wait, on all connections: thousands of clients may each send ten ahead. */
  readonly #waitingBudget = new Budget();
  #looking: NodeJS.Timeout | undefined;
  /** Every answer closes its connection. */
  #isDraining = false;
  /** During a drain: looks that are left for request heads which still arrive. */
  #looksLeft = DRAIN_LOOKS;

  /** @throws RangeError for a number out of its range. */
  constructor(handler: Listener, options: Numbers) {
    this.#handler = handler;
    this.#limits = {
      idleMs: readNumber(options, "keepAliveTimeoutMs"),
      stallMs: STALL_MS,
    };
  }

  /** Takes over the connections of a server, and looks at them while it listens. */
  attach(server: Server): void {
    server.on("listening", () => this.#startLooking());
    server.on("close", () => clearInterval(this.#looking));
    const connected = server instanceof tls.Server ? "secureConnection" : "connection";
    server.on(connected, (socket: Socket) => this.#add(socket));
    server.on("request", this.#handle);
    // An unknown expectation: the listener answers 417 in its order of faults.
    server.on("checkExpectation", this.#handle);
    server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
      this.#handle(req, res, () => res.writeContinue());
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      this.refuse(socket as Socket, error);
    });
  }

  #add(socket: Socket): void {
    const lend = () => new Lease(this.#waitingBudget, this.#handler.senderOn(socket));
    const connection = new Connection(socket, this.#limits, lend);
    this.#connections.set(socket, connection);
    socket.once("close", () => {
      connection.noteClosed();
      this.#connections.delete(socket);
    });
  }

  /** Carries a request out, unless its connection closes after an earlier one. */
  readonly #handle = (req: IncomingMessage, res: ServerResponse, sendContinue?: () => void) => {
    const { socket } = req;
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    const { res: last } = connection;
    // An ordinary client waits for an answer that needed no good token. Node may send an answer amid a
    // packet, whose next request then follows.
    const isPipelined = connection.unanswered > 0 || socket.bytesRead === connection.tokenlessBytes;
    if (!connection.isBroken && isPipelined && TOKENLESS.has(last?.statusCode)) {
      connection.isBroken = true;
      afterAnswer(last, () => this.#handler.lingering.close(socket));
    }
    const hasLeft = connection.unanswered > 0 && socket.errored;
    if (connection.isBroken || hasLeft || (last !== undefined && isLastAnswer(last))) {
      ignoreFollowing(req);
      req.resume();
      return;
    }
    const head = readHead(req);
    const hasRoom = connection.begin(res, head.bytes);
    if (this.#isDraining) closeAfter(res);
    const fault = hasRoom ? head.fault : overloaded();
    if (fault === undefined) this.#handler.handle(req, res, head, sendContinue);
    else this.#handler.refuse(req, res, fault);
  };

  /** The parser gave up on the bytes that arrived last, or the time for a request ran out. */
  refuse(socket: Socket, cause: NodeJS.ErrnoException): void {
    const connection = this.#connections.get(socket);
    // A lingering connection was answered, and ends by its own bounds.
    if (connection === undefined || connection.isBroken || this.#handler.lingering.has(socket))
      return;
    connection.isBroken = true;
    const fault = describeParserFault(cause);
    const { res } = connection;
    if (fault === undefined || !socket.writable) socket.destroy();
    else if (res?.req.complete === false) this.#refuseBody(res, fault);
    else if (res === undefined || !isLastAnswer(res)) this.#handler.refuseBytes(socket, fault, res);
  }

  /** The fault is in the body of the last request, whose answer has its place in the order. */
  #refuseBody(res: ServerResponse, fault: PlantStoreError): void {
    const { req } = res;
    const collector = req instanceof DirectRequest ? req.collector : undefined;
    if (res.headersSent) {
      if (!isLastAnswer(res)) req.socket.destroy();
    } else if (collector === undefined) {
      this.#handler.refuse(req, res, fault, true);
    } else {
      closeAfter(res);
      collector.end(fault); // in the request's own asynchronous context
    }
  }

  /** Looks at every connection again and again. */
  #startLooking(lookMs = CONNECTION_CHECK_MS): void {
    clearInterval(this.#looking);
    // After the poll phase: what has arrived by now is read first.
    this.#looking = setInterval(() => setImmediate(() => this.#look()), lookMs).unref();
  }

  #look(): void {
    const isLate = this.#isDraining && --this.#looksLeft < 0;
    for (const [socket, connection] of this.#connections) {
      const isStill = connection.look();
      // A connection that closes already is left to send what it has.
      const isDone = connection.unanswered === 0 && !socket.writableEnded;
      if (this.#isDraining && isDone && (isStill || isLate)) socket.destroy();
    }
  }

  /**
   * From now on the last answer of a connection closes it, and looks close connections that owe no answer:
   * Node takes a silent one, or one with half a request head, for busy.
   */
  drain(): void {
    for (const connection of this.#connections.values()) {
      closeAfter(connection.res);
      connection.look(); // what came before does not count
    }
    this.#isDraining = true;
    this.#startLooking(DRAIN_LOOK_MS);
  }

  /** Cuts every connection. */
  cutAll(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
  }
}

/** One connection: its last request, and the requests that wait for earlier answers. */
export class Connection {
  /** Requests whose answers are not sent yet. */
  unanswered = 0;
  /** The response to the request that began last. */
  res: ServerResponse | undefined;
  /** No further request is carried out; the parser may report its fault again. */
  isBroken = false;
  /** How many bytes were read when the last answer was sent that needed no good token. */
  tokenlessBytes: number | undefined;
  readonly #socket: Socket;
  readonly #limits: Limits;
  readonly #lend: () => Lease;
  /** Of the memory of requests that wait for an earlier answer; absent if none does. */
  #waiting: Lease | undefined;
  /** Bytes that they hold. */
  #waitingBytes = 0;
  /** The server does not read until answers leave. */
  #isHeld = false;
  /** How many bytes of the connection were read at the last look. */
  #lookedBytes: number | undefined;

  /** @param lend makes a lease for requests that wait. */
  constructor(socket: Socket, limits: Limits, lend: () => Lease) {
    this.#socket = socket;
    this.#limits = limits;
    this.#lend = lend;
  }

  /**
   * @param bytes that the request holds.
   * @returns false if there is no room for it; its refusal is then the last answer.
   */
  begin(res: ServerResponse, bytes: number): boolean {
    const hasRoom = this.unanswered === 0 || this.#wait(bytes);
    this.res = res;
    this.unanswered++;
    advertiseIdleTime(res, this.#limits.idleMs);
    res.on("close", this.#noteAnswered);
    if (this.#socket.timeout) this.#socket.setTimeout(0); // the next look decides anew
    return hasRoom;
  }

  /** Counts a request that arrived before earlier answers have left. */
  #wait(bytes: number): boolean {
    this.#waiting ??= this.#lend();
    const held = this.#waitingBytes + bytes;
    const hasRoom = this.unanswered < UNANSWERED_MAX && this.#waiting.hold(held);
    if (hasRoom) this.#waitingBytes += bytes;
    if (this.#waitingBytes > WAITING_BYTES_MAX && !this.#isHeld) {
      this.#isHeld = true;
      // Node resumes the socket after each message that it has parsed.
      this.#socket.on("resume", this.#pause).pause();
    }
    return hasRoom;
  }

  /** The connection is closed: answers that wait are never sent. */
  noteClosed(): void {
    this.#giveBack(this.#waitingBytes);
  }

  readonly #noteAnswered = () => {
    this.unanswered--;
    if (TOKENLESS.has(this.res?.statusCode)) this.tokenlessBytes = this.#socket.bytesRead;
    // The next request waits no more: this is what each of them holds on average.
    if (this.#waitingBytes > 0) this.#giveBack(Math.ceil(this.#waitingBytes / this.unanswered));
  };

  #giveBack(bytes: number): void {
    this.#waitingBytes -= bytes;
    this.#waiting?.hold(this.#waitingBytes);
    if (this.#waitingBytes === 0) this.#waiting = undefined;
    if (!this.#isHeld || this.#waitingBytes > WAITING_BYTES_MAX / 2) return;
    this.#isHeld = false;
    this.#socket.off("resume", this.#pause).resume();
  }

  readonly #pause = () => void this.#socket.pause();

  /**
   * Has Node time the connection only if nothing was read since the last look: a timer that Node
   * sets, refreshes and clears with every request slows creates (measured: 3 to 6 %). Then it also drops
   * the headers that the answer does not need.
   *
   * @returns whether nothing was read.
   */
  look(): boolean {
    const { bytesRead, timeout = 0 } = this.#socket;
    const isStill = bytesRead === this.#lookedBytes;
    this.#lookedBytes = bytesRead;
    const req = this.res?.req;
    const isIdle = req !== undefined && this.unanswered === 0;
    const isJudged = req?.readableFlowing || (req instanceof DirectRequest && req.collector);
    if (isStill && req !== undefined && (isIdle || isJudged)) dropHeaders(req);
    const { idleMs, stallMs } = this.#limits;
    const limitMs = isIdle ? idleMs + IDLE_MARGIN_MS : stallMs;
    const wantedMs = isStill ? limitMs : 0;
    if (timeout !== wantedMs) this.#socket.setTimeout(wantedMs);
    return isStill;
  }
}

/** For requests that stay in memory: the last one of a connection, and a create until it is stored. */
function dropHeaders(req: IncomingMessage): void {
  if (req.rawHeaders.length === 0) return;
  req.headers = Object.fromEntries(KEPT_HEADERS.map((name) => [name, req.headers[name]]));
  req.rawHeaders = [];
  req.headersDistinct = {}; // Node would look for as many raw headers as there were
}
