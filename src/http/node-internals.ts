/**
 * What the server uses of Node that Node does not document. No other file uses such a member.
 *
 * Invariant: all of it is off until a probe in memory, on a major version of Node that the tests run on,
 * has got the same bytes with it as without it. While it is off each function goes the documented way that
 * its comment names. Must not know routes, plants or tokens.
 */
import http, { IncomingMessage, type ServerOptions, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { Gate } from "../core/gate.ts";
import { BodyCollector } from "./body.ts";
import { NOTED, type Noted } from "./request-message.ts";

/** The major versions of Node that the tests run on. */
export const TESTED: readonly number[] = [20, 22, 24, 26];
const { node } = process.versions;
let isOn = false;
let isProbed = false;

/** Probes once in a process, in about 5 ms. Call it before a server or a listener is made. */
export function probe(): void {
  if (isProbed) return;
  isProbed = true;
  const isTested = TESTED.includes(Number.parseInt(node, 10));
  isOn = isTested; // for the probe
  isOn = isTested && agrees();
  if (isOn) return;
  const why = isTested
    ? "its HTTP server does not answer as expected, perhaps because a monitor has changed it"
    : `use Node.js ${TESTED.join(", ")}`;
  publishWarning(
    `With Node.js ${node} creates are slower, and clients that are still sending may miss an answer: ${why}`,
  );
}

/** Each takes a microsecond or two, and a packet may hold 11,000 chunks of one byte. */
const PIECES_MAX = 1000;
/** Bodies in many small pieces are read one after the other, a packet in a turn of the event loop. */
const piecemeal = new Gate(1);

/**
 * A request whose body Node's HTTP parser hands to a collector, without a stream in between (measured: 11 % of
 * creates). Node documents neither that its parser calls `push` nor what it asks a request afterwards. The
 * documented way: the events of an `IncomingMessage`, in `collectBody`.
 *
 * It is a stream like any other until a collector is attached, and again when the collector wants no
 * more, so refusals read or discard a rest as usual. In between nothing is buffered.
 */
export class DirectRequest extends IncomingMessage {
  /** Receives the body, or has received it; so the head was judged. */
  collector: BodyCollector | undefined;
  /** Unless it is set, Node discards the body of a request that was answered. */
  declare _dumped: boolean;
  #pieces = 0;
  /** Of http/request-message. */
  [NOTED]: Noted | undefined = undefined;

  /** While it is not known yet whether the body is wanted: what has arrived of it. */
  #held: BodyCollector | undefined;
  #heldBytes: Buffer | undefined;

  /** Has the body wait. At most the rest of a packet is kept, in one piece: chunks of one byte take 250 each. */
  hold(): void {
    if (this.complete || this.readableLength > 0) return;
    const lease = { client: "", hold: () => true };
    this.#held = new BodyCollector(Number.POSITIVE_INFINITY, 0, lease, (bytes) => {
      this.#heldBytes = bytes;
    });
  }

  /** Hands the body to a collector. Without one what has arrived is dropped, and the stream goes on. */
  release(collector?: BodyCollector): void {
    const held = this.#held;
    this.#held = undefined;
    this.collector = collector;
    if (held === undefined) return;
    held.end();
    if (collector !== undefined && this.#heldBytes?.length) this.push(this.#heldBytes);
    this.#heldBytes = undefined;
    if (this.complete) this.push(null);
    else this._read(0); // Node's parser reads on
  }

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** Called by Node's parser with each piece of a body, and with null after the last. */
  override push(chunk: Buffer | null): boolean {
    if (this.#held !== undefined) {
      if (chunk !== null) this.#held.add(chunk);
      return false;
    }
    const { collector } = this;
    if (collector === undefined) return super.push(chunk);
    if (chunk === null) {
      this._dumped = true;
      collector.end();
    } else {
      if (!collector.add(chunk)) this.collector = undefined;
      if (++this.#pieces === PIECES_MAX) void this.#rest(collector.lease.client);
    }
    return true;
  }

  /** Has the rest of the body wait for its turn. */
  async #rest(client: string): Promise<void> {
    this.socket.pause();
    await piecemeal.pass(setImmediate, client);
    this.#pieces = 0;
    this.socket.resume();
  }

  /** Node keeps a request until this is true. */
  // @ts-expect-error The types call the accessor a property.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return (this.complete && this.collector !== undefined) || super.readableEnded;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.collector?.leave();
    super._destroy(error, done);
  }
}

/**
 * Has the body of a request wait until `collectBody`, or `dropBody`. The documented way: Node keeps the pieces of
 * a packet.
 */
export function holdBody(req: IncomingMessage): void {
  if (req instanceof DirectRequest) req.hold();
}

/** Nobody reads the body of the request. */
export function dropBody(req: IncomingMessage): void {
  if (req instanceof DirectRequest && req.isHeld) req.release();
}

/** Feeds a collector with the body of a request, from the parser if none of it has arrived before. */
export function collectBody(req: IncomingMessage, collector: BodyCollector): void {
  if (req.destroyed) {
    collector.leave();
  } else if (
    req instanceof DirectRequest &&
    (req.isHeld || (!req.complete && req.readableLength === 0))
  ) {
    req.release(collector);
  } else {
    // The listeners stay: a collector that is done ignores them.
    req
      .on("data", (chunk: unknown) => collector.add(chunk))
      .on("end", () => collector.end())
      .on("close", () => collector.leave())
      .on("error", () => {}); // "close" follows
    req.resume(); // "data" alone does not undo a pause() of other code
  }
}

/** Members of Node's responses. */
interface ResponseMembers {
  /** The text of the head, which leaves with the first piece of the body. */
  _header: string | null | undefined;
  _keepAliveTimeout: number | undefined;
  readonly _maxRequestsPerSocket: number | null | undefined;
  readonly _removedConnection: boolean;
  /** The client waits for a 100; Node closes after an answer without one. */
  readonly _expect_continue: boolean;
  readonly _sent100: boolean;
}

const { writeHead, end } = ServerResponse.prototype;
/** Whether both are Node's own, by what they call: a monitor that has wrapped them has to see each call. */
const ARE_NODES = /\b_storeHeader\b/.test(`${writeHead}`) && /\b_send\b/.test(`${end}`);

/** Splits a head around the length of its body and the id of its request. */
const AROUND_VALUES = /^(.*\r\nContent-Length: )\d+(\r\n.*\r\nX-Request-Id: )[^\r]*(\r\n.*)$/s;

const UNKNOWN = { second: 0, keepAliveMs: 0, parts: [] as readonly string[] };
/** The head that Node made last, split. */
let lastHead = UNKNOWN;

/** What differs between two answers. */
interface Values {
  readonly body: string | Uint8Array;
}

/**
 * Sends a 200 as one text: Node checks and joins header by header (measured: 5 to 12 % of creates). The
 * documented way: `writeHead` and `end`.
 *
 * Invariant: byte for byte the answer that Node sends. The head is a copy of one that Node made in this
 * second, with other values.
 *
 * @param headersOf makes the headers, which differ in `Content-Length` and `X-Request-Id` only.
 * @returns false, with nothing sent, if Node has to send this answer: on a connection that closes, and
 * from a response whose methods were wrapped, by middleware or by a monitor of all responses.
 */
export function sendAsOneText<Reply extends Values>(
  res: ServerResponse,
  reply: Reply,
  requestId: string,
  headersOf: (reply: Reply, requestId: string) => Record<string, string>,
): boolean {
  if (!isOn || !isPlain(res)) return false;
  const { body } = reply;
  // Node writes a head as Latin-1, so the text has a character for each byte of the body.
  const isAscii = typeof body === "string" && Buffer.byteLength(body) === body.length;
  const text = isAscii ? body : Buffer.from(body as string).toString("latin1");
  const members = res as unknown as ResponseMembers;
  const { _keepAliveTimeout: keepAliveMs = 0 } = members;
  const second = Math.floor(Date.now() / 1000);
  if (second !== lastHead.second || keepAliveMs !== lastHead.keepAliveMs) {
    res.writeHead(200, headersOf(reply, requestId));
    const parts = AROUND_VALUES.exec(members._header ?? "")?.slice(1);
    if (parts === undefined) {
      res.end(body);
      return true;
    }
    lastHead = { second, keepAliveMs, parts };
  }
  res.statusCode = 200;
  res.statusMessage = "OK";
  const [start, middle, ending] = lastHead.parts;
  const head = `${start}${text.length}${middle}${requestId}${ending}`;
  members._header = `${head}${text}`;
  res.end();
  members._header = head; // the response stays until the next request: not the body, too
  return true;
}

/** Whether a response is as Node made it for a request other than HEAD on a connection that stays open. */
function isPlain(res: ServerResponse): boolean {
  if (!ARE_NODES || res.writeHead !== writeHead || res.end !== end) return false;
  if (res.req.method === "HEAD" || !res.shouldKeepAlive || !res.sendDate) return false;
  if (res.statusMessage || res.getHeaderNames().length > 0) return false;
  const members = res as unknown as ResponseMembers;
  if (members._header !== null || members._removedConnection) return false;
  if (members._expect_continue && !members._sent100) return false;
  return Number(members._keepAliveTimeout) > 0 && !members._maxRequestsPerSocket;
}

/**
 * The settings of a server that depend on what is on. http/connections times connections, which saves a
 * timer of Node's for each request (measured: 3 to 6 % of creates). The documented way: Node's timer.
 */
export function serverSettings(idleMs: number): ServerOptions {
  probe();
  if (!isOn) return { keepAliveTimeout: idleMs };
  return { IncomingMessage: DirectRequest, keepAliveTimeout: 0 };
}

/** Sets the `Keep-Alive` header of an answer. The documented way: the setting of the server, as above. */
export function advertiseIdleTime(res: ServerResponse, idleMs: number): void {
  if (isOn) (res as unknown as ResponseMembers)._keepAliveTimeout = idleMs;
}

const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i;
const KEEP_ALIVE = /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i;

/**
 * Whether Node has decided to close the connection after this answer. The documented way: by the version and
 * the header of the request (RFC 9112 section 9.3), which does not see what Node decides for another reason.
 */
export function willClose(res: ServerResponse, req: IncomingMessage): boolean {
  if (isOn) return res.shouldKeepAlive === false; // Fastify's inject() has no such member
  const { httpVersion, headers } = req; // not before: a busy server rarely has them in its caches
  const { connection = "" } = headers;
  return httpVersion === "1.1" ? CLOSE.test(connection) : !KEEP_ALIVE.test(connection);
}

/** Has Node's parser drop the rest of a packet, which may hold two thousand requests. */
const SKIP_PACKET = 2;

/** It takes each request whose head was parsed. */
interface Parser {
  onIncoming: (req: IncomingMessage & { upgrade: boolean }) => number;
}

/**
 * Has Node hand out no other request of this connection: it keeps some KiB of each until the connection
 * is closed, so a client could fill the memory. The documented way: they are handed out. Our own server
 * carries none of them out; a mounted listener may, and Node sends no answer.
 *
 * @returns false if it does nothing, also because the request comes from no parser.
 */
export function ignoreFollowing(req: IncomingMessage): boolean {
  const { parser } = (req.socket ?? {}) as { parser?: Parser | null };
  if (!isOn || parser === undefined || parser === null) return false;
  parser.onIncoming = (next) => {
    next.upgrade = false; // else Node hands the connection over
    next.resume();
    return SKIP_PACKET;
  };
  return true;
}

/**
 * Has Node call this after a last answer. The documented way: Node closes the connection at once, so a
 * client that is still sending may miss its answer.
 */
export function closeBy(socket: Socket, close: () => void): void {
  if (isOn) socket.destroySoon = close;
}

/**
 * Makes a connection read that was taken from Node's parser, which may have paused it while its stream
 * believes that it reads. The documented way: it stays paused, and ends by its bounds.
 */
export function resumeReading(socket: Socket): void {
  if (isOn) socket._read(0);
}

/** Whether the server of a connection has stopped listening. The documented way: false. */
export function hasStopped(socket: Socket): boolean {
  const { server } = socket as { server?: { listening?: boolean } };
  return isOn && server?.listening === false;
}

/**
 * The connection under TLS, as the server accepted it. The documented way: none, so no handshake is counted,
 * and every connection with TLS counts as one that showed no good token.
 */
export function socketUnder(secure: Socket): Socket | undefined {
  return isOn ? (secure as unknown as { _parent?: Socket })._parent : undefined;
}

const PROBE_IDLE_MS = 7000;
const REQUEST = "/ HTTP/1.1\r\nHost: a\r\n";
/** A request, two creates with the body `ab` in pieces, and twice the last request. */
const PACKETS = [
  `GET ${REQUEST}\r\nPOST ${REQUEST}Content-Length: 2\r\n\r\na`,
  `bPOST ${REQUEST}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
  `PUT ${REQUEST}\r\n`.repeat(2),
];

/**
 * Whether a server in memory answers two creates with the bytes of its first answer, which goes the
 * documented ways; ignores a request that follows the last one; and closes as `closeBy` says. A probe in
 * memory sees neither TLS nor sockets of the system.
 */
function agrees(): boolean {
  let sent = "";
  const seen: unknown[] = [];
  const socket = new Duplex({ read: () => {} });
  // Not `_write`: so an answer has left before its `end()` returns, and nothing has to be waited for.
  socket.write = (chunk: string, encoding?: unknown, done?: unknown) => {
    sent += Buffer.from(chunk, encoding as BufferEncoding).toString("latin1");
    if (typeof done === "function") done();
    return true;
  };
  const settings = { ...serverSettings(PROBE_IDLE_MS), keepAliveTimeout: PROBE_IDLE_MS };
  const server = http.createServer(settings, (req, res) => {
    seen.push(req.method);
    const sendAsNode = (body: string) => res.writeHead(200, probeHeaders({ body })).end(body);
    if (req.method === "GET") {
      server.keepAliveTimeout = 0;
      sendAsNode("éab");
    } else if (req.method === "POST") {
      advertiseIdleTime(res, PROBE_IDLE_MS);
      const end = (bytes?: Buffer) => {
        const body = `é${bytes}`;
        if (!sendAsOneText(res, { body }, "a", probeHeaders)) sendAsNode(body);
      };
      collectBody(req, new BodyCollector(9, 0, { client: "", hold: () => true }, end));
    } else {
      ignoreFollowing(req);
      closeBy(req.socket, () => seen.push("closed"));
      res.setHeader("Connection", "close").end();
    }
  });
  try {
    server.emit("connection", socket);
    for (const packet of PACKETS) socket.emit("data", Buffer.from(packet));
    socket.destroy();
  } catch {
    return false;
  }
  lastHead = UNKNOWN;
  const [first, ...answers] = sent.replace(/^Date: .*\r\n/gm, "").split(/(?=HTTP)/);
  const areAlike = answers.length === 3 && answers[0] === first && answers[1] === first;
  return areAlike && `${seen}` === "GET,POST,POST,PUT,closed";
}

function probeHeaders({ body }: Values): Record<string, string> {
  return { "Content-Length": `${Buffer.byteLength(body)}`, "X-A": "a", "X-Request-Id": "a" };
}
