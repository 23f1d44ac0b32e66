/**
 * The id of a request, and its message on the channel `plant-store:request`.
 *
 * The code that answers publishes, so each answer has one message. Without a subscriber it reads no clock and
 * keeps nothing.
 *
 * Invariant: a client cannot choose the address in it. That is the address of the peer, unless the peer
 * is a trusted proxy. Each proxy appends the address that called it to `X-Forwarded-For`, so the list is
 * read from its end, up to the first address that is not a trusted proxy. A client may have invented the
 * entries before that one. `Forwarded` (RFC 7239) is not read: a proxy that appends to one header passes
 * the other on as the client sent it.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP, type Socket, SocketAddress } from "node:net";
import { publishWarning, type RequestMessage, requests } from "../core/channels.ts";
import type { TrustedProxies } from "../core/services.ts";

/** Text that means nothing to a header, a line of a log, a shell or a page. */
const SAFE = /^[A-Za-z0-9._~+/=:@-]{1,64}$/;

const OURS = `${randomBytes(6).toString("hex")}-`;
let made = 0;

/**
 * The id of a request: the client's own `X-Request-Id` if it is safe to repeat, else one of ours, a
 * random part for each process and a counter, so that ids are unique among restarts and replicas.
 * Several `X-Request-Id` headers arrive joined by commas, which is not safe.
 */
export function nameRequest(req?: IncomingMessage): string {
  const sent = req?.headers["x-request-id"];
  return typeof sent === "string" && SAFE.test(sent) ? sent : OURS + ++made;
}

const AUTHORITY = /^https?:\/\/[^/?#]*/i;

/** The path of a request target, without authority and query. */
export function pathOf(target: string): string {
  const path = target.startsWith("/") ? target : target.replace(AUTHORITY, "");
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}

/** The message itself; until it is published, `durationMs` is the time when the request arrived. */
export type Noted = { -readonly [Member in keyof RequestMessage]: RequestMessage[Member] };

/**
 * The member of a request that holds its message, because a WeakMap costs a microsecond. Our own requests
 * have it from the start: added later, it changes their shape (measured: a tenth of a create).
 */
export const NOTED: unique symbol = Symbol("plant-store:request");

interface WatchedRequest extends IncomingMessage {
  [NOTED]?: Noted;
}

/**
 * Call it when the listener receives a request, if there is a subscriber.
 *
 * @param isTimed whether its duration is published.
 * @returns its message so far.
 */
export function noteArrival(req: WatchedRequest, trusted?: TrustedProxies, isTimed = true): Noted {
  req[NOTED] = beginMessage(req, clientOf(req, trusted), isTimed ? performance.now() : undefined);
  return req[NOTED];
}

function beginMessage(req?: IncomingMessage, client?: string, arrivedAt?: number): Noted {
  return {
    method: req?.method,
    path: req && pathOf(req.url ?? ""),
    client,
    status: 0,
    error: undefined,
    durationMs: arrivedAt,
    bodyBytes: 0,
    requestId: "",
    token: undefined,
    operation: undefined,
    cut: false,
  };
}

/** What a message repeats of a request: up to the next fault, or an id. */
const VALUES = /, got (?:[^";]|"(?:[^"\\]|\\.)*")*|(?<=plant) -?[0-9]+/g;

/**
 * Call it when an answer was handed to Node, or the request broke off.
 *
 * @param req absent if the bytes never became a request.
 */
export function publishAnswer(
  answered: Pick<RequestMessage, "status"> & Partial<RequestMessage>,
  requestId: string,
  req?: WatchedRequest,
): void {
  if (!requests.hasSubscribers) return;
  const message = req?.[NOTED] ?? beginMessage(req, answered.client);
  if (message.durationMs !== undefined) message.durationMs = performance.now() - message.durationMs;
  message.status = answered.status;
  message.error = answered.error;
  if (answered.reason !== undefined) message.reason = answered.reason.replace(VALUES, "");
  message.cut = answered.cut === true;
  message.requestId = requestId;
  requests.publish(message);
}

/** A request with a longer chain was not sent by real proxies, and each look-up takes time. */
const PROXIES_MAX = 32;

/** The address of the peer; `undefined` once the peer has reset the connection. */
export function peerOf(socket: Socket | undefined): string | undefined {
  const address = socket?.remoteAddress;
  return address && simplify(address);
}

/**
 * The last address that is no trusted proxy, or the first one if all are. An entry without an address
 * (`unknown`, garbage) ends the search: the proxy that appended it is returned.
 */
function clientOf(req: IncomingMessage, trusted?: TrustedProxies): string | undefined {
  let client = peerOf(req.socket);
  if (trusted === undefined) return client;
  const list = `${req.headers["x-forwarded-for"] ?? ""}`.split(",").slice(-PROXIES_MAX);
  while (client !== undefined && isTrusted(trusted, client)) {
    const before = addressOf(list.pop() ?? "");
    if (before === undefined) break;
    client = before;
  }
  return client;
}

/** The address in `192.0.2.1:4711`, `[2001:db8::1]:4711` or `2001:db8::1`. */
function addressOf(element: string): string | undefined {
  const text = element.trim();
  const bare = isIP(text) ? text : text.replace(/:[\w.-]+$/, "").replace(/^\[(.*)\]$/, "$1");
  const family = isIP(bare);
  if (family !== 6) return family === 4 ? bare : undefined;
  const address = bare.replace(/%.*/, ""); // Node throws for a long address with an interface
  return simplify(new SocketAddress({ address, family: "ipv6" }).address);
}

/** Without the name of a network interface; an IPv4 address as such (RFC 4291 section 2.5.5.2). */
function simplify(address: string): string {
  return address.replace(/%.*/, "").replace(/^::ffff:(?=[0-9.]+$)/i, "");
}

/** A list that throws fails no request: the client is then the peer. */
function isTrusted(trusted: TrustedProxies, address: string): boolean {
  try {
    return trusted.check(address, address.includes(":") ? "ipv6" : "ipv4");
  } catch (error) {
    publishWarning("trustedProxies has thrown, so no proxy is trusted", error);
    return false;
  }
}
