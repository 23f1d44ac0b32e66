/**
 * The address of the client that sent a request.
 *
 * Invariant: a client cannot choose it. It is the address of the peer, unless the peer is a trusted
 * proxy. Each proxy appends the address that called it to `X-Forwarded-For`, so the list is read from
 * its end, up to the first address that is not a trusted proxy. A client may have invented the entries
 * before that one. `Forwarded` (RFC 7239) is not read: a proxy that appends to one header passes the
 * other on as the client sent it.
 */

import type { IncomingMessage } from "node:http";
import { isIP, type Socket, SocketAddress } from "node:net";
import { publishWarning } from "../core/channels.ts";
import type { TrustedProxies } from "../core/services.ts";

/** A request with a longer chain was not sent by real proxies, and each look-up takes time. */
const PROXIES_MAX = 32;

/** A proxy that connects to a Unix socket runs on this machine. */
const LOOPBACK = "127.0.0.1";

/** The address of the peer; `undefined` for a Unix socket, and once the peer has reset the connection. */
export function peerOf(socket: Socket | undefined): string | undefined {
  const address = socket?.remoteAddress;
  return address && simplify(address);
}

/** Whether a peer without an address is one on a Unix socket. */
function isUnix({ localAddress, destroyed }: Socket): boolean {
  return localAddress === undefined && !destroyed;
}

export function clientOf(req: IncomingMessage, trusted?: TrustedProxies): string | undefined {
  const peer = peerOf(req.socket);
  if (trusted === undefined) return peer;
  const caller = peer ?? (isUnix(req.socket) ? LOOPBACK : undefined);
  if (caller === undefined || !isTrusted(trusted, caller)) return peer;
  const list = req.headers["x-forwarded-for"];
  return (list && lastUntrusted(`${list}`, trusted)) || peer;
}

/**
 * The last address in a list that is no trusted proxy, or the first one if all are. An entry without
 * an address (`unknown`, garbage) ends the search: the proxy that appended it is returned.
 */
function lastUntrusted(list: string, trusted: TrustedProxies): string | undefined {
  let client: string | undefined;
  let proxies = 0;
  for (const element of list.split(",").reverse()) {
    const address = addressOf(element);
    if (address === undefined || proxies === PROXIES_MAX) break;
    client = address;
    if (!isTrusted(trusted, address)) break;
    proxies++;
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
