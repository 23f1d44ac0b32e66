/** The address or socket where a server listens, and how many connections it accepts. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import tls from "node:tls";
import { getHeapStatistics } from "node:v8";
import { type DropMessage, drops, publishWarning } from "../core/channels.ts";
import {
  assertDescriptor,
  assertNumber,
  assertText,
  DEFAULT_HOST,
  NUMBER_OPTIONS,
  type Numbers,
  readNumber,
} from "../core/options.ts";
import { formatHostPort } from "../core/text.ts";
import { memoryLeft } from "../memory.ts";
import { Budget, Lease, NO_TOKEN } from "./body.ts";
import type { TlsSocket } from "./tls.ts";

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** Default: 8080; 0 picks a free one. */
  readonly port?: number | undefined;
  /**
   * The descriptor of a listening socket that this process inherited, as by systemd's socket
   * activation (sd_listen_fds(3): the first is 3); `host` and `port` are ignored then. Connections
   * that this server did not accept wait in the socket for the next process: a restart refuses none.
   */
  readonly fd?: number | undefined;
}

/**
 * Connections that wait to be accepted, as many as Linux permits by default (net.core.somaxconn).
 * With Node's own 511, the rest of a thousand that arrive at once wait a second for their next try.
 */
const BACKLOG = 4096;

/**
 * @throws the system's error if the server cannot listen there; TypeError or RangeError for an option
 * of the wrong type or out of its range.
 * @internal
 */
export async function listen(server: Server, options: ListenOptions): Promise<void> {
  const { host = DEFAULT_HOST, fd } = options;
  assertText("host", host);
  const port = readNumber(options, "port");
  assertDescriptor("fd", fd);
  server.listen({ ...(fd === undefined ? { host, port } : { fd }), backlog: BACKLOG });
  await once(server, "listening");
}

/** `127.0.0.1:8080`, `[::1]:8080`; `localhost` if the socket has no such address (unix(7)). @internal */
export function addressOf(server: Server): string {
  const address = server.address() as AddressInfo | string | null;
  if (address === null || typeof address === "string") return "localhost";
  return formatHostPort(address.address, address.port);
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

/** How many files the process may have open; `undefined` if that is unlimited or unknown. @internal */
export function readFilesMax(): number | undefined {
  try {
    const limits = readFileSync("/proc/self/limits", "latin1");
    return Number(/^Max open files +([0-9]+)/m.exec(limits)?.[1]) || undefined;
  } catch {
    return undefined;
  }
}

/**
 * Limits how many connections a server has open, TLS handshakes included, so that no client takes all.
 * For a new one makes room: if more than half show no good token, the oldest of those, because a good client
 * shows its token at once; else the oldest that its token may not keep, by the rule of http/body; else
 * the oldest without a token.
 *
 * @param handshakes what `watchHandshakes` keeps.
 * @param clientOn the token that was shown on a connection. Without it no connection ever shows one, and
 * each request makes a connection the newest.
 * @throws TypeError or RangeError for a number out of its range.
 * @internal
 */
export function limitConnections(
  server: Server,
  options: Numbers,
  handshakes: Set<Socket>,
  clientOn?: (socket: Socket) => string,
): void {
  const tlsBytes = server instanceof tls.Server ? TLS_BYTES : 0;
  const eachBytes = CONNECTION_BYTES + readNumber(options, "headerBytesMax") + tlsBytes;
  const heapBytes = Math.min(getHeapStatistics().heap_size_limit, memoryLeft());
  const files = readFilesMax() ?? Number.POSITIVE_INFINITY;
  const { connectionsMax = connectionsThatFit(files, heapBytes, eachBytes) } = options;
  assertNumber("connectionsMax", connectionsMax);
  const bytesMax = Math.max(heapBytes / 2, connectionsMax * eachBytes);
  /** Oldest first, by their sockets as accepted, the sockets of their requests: TLS has its own. */
  const strangers = new Map<Socket, Socket>();
  /** Those that showed a token, oldest first, while nobody needs to know whether it may keep them. */
  const spare = new Map<Socket, Lease>();
  const kept = new Map<Socket, Lease>();
  const places = new Budget(connectionsMax);
  const hasRoom = () => {
    const open = strangers.size + spare.size + kept.size;
    const bytes = open * eachBytes + handshakes.size * HANDSHAKE_BYTES;
    return open <= connectionsMax && bytes <= bytesMax;
  };
  let dropped = 0;
  let warnedAt = Number.NEGATIVE_INFINITY;
  const drop = (socket: Socket) => {
    handshakes.delete(socket);
    socket.destroy();
    dropped++;
    if (drops.hasSubscribers) drops.publish({ connectionsMax } satisfies DropMessage);
    if (performance.now() - warnedAt < DROP_WARNING_MS) return;
    warnedAt = performance.now();
    publishWarning(
      `Closed connections at ${addressOf(server)} because there is room for ${connectionsMax} ` +
        `(connectionsMax), those that never showed a good token first: ${dropped} so far; ` +
        "find out who opens so many, or permit more open files and memory",
    );
  };
  const makeRoom = () => {
    for (const [oldest, ofRequests] of strangers) {
      const client = clientOn?.(ofRequests) ?? NO_TOKEN;
      const areMost = strangers.size > connectionsMax / 2;
      if (client === NO_TOKEN && !areMost) break;
      strangers.delete(oldest);
      if (client === NO_TOKEN) return drop(oldest);
      spare.set(oldest, new Lease(places, client));
    }
    for (const [oldest, place] of spare) {
      spare.delete(oldest);
      if (!place.hold(1)) return drop(oldest);
      kept.set(oldest, place);
    }
    const [oldest] = strangers.keys();
    strangers.delete(oldest as Socket);
    drop(oldest as Socket);
  };
  server.on("connection", (socket: Socket) => {
    strangers.set(socket, socket);
    socket.once("close", () => {
      kept.get(socket)?.hold(0);
      for (const sockets of [strangers, spare, kept]) sockets.delete(socket);
    });
    while (!hasRoom()) makeRoom();
  });
  server.on("secureConnection", (socket: TlsSocket) => {
    if (strangers.has(socket._parent)) strangers.set(socket._parent, socket); // in its old place
  });
  if (clientOn !== undefined) return;
  server.on("request", ({ socket }: IncomingMessage) => {
    if (strangers.delete(socket)) strangers.set(socket, socket);
  });
}
