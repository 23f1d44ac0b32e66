/** The address or socket where a server listens, and how many connections it accepts. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import tls from "node:tls";
import { getHeapStatistics } from "node:v8";
import { type DropMessage, drops, publishWarning } from "../core/channels.ts";
import { formatHostPort } from "../core/host-port.ts";
import {
  assertDescriptor,
  assertNumber,
  assertText,
  DEFAULT_HOST,
  NUMBER_OPTIONS,
  readNumber,
} from "../core/options.ts";

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
  /**
   * A handle of Node's that is bound and does not listen yet; `host` and `port` are ignored then.
   * @internal
   */
  readonly bound?: object | undefined;
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
  const { host = DEFAULT_HOST, fd, bound } = options;
  assertText("host", host);
  const port = readNumber(options, "port");
  assertDescriptor("fd", fd);
  if (bound !== undefined) server.listen(bound, BACKLOG);
  else server.listen({ ...(fd === undefined ? { host, port } : { fd }), backlog: BACKLOG });
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
/** Memory of a TLS connection in OpenSSL, as Node reckons it. */
const TLS_BYTES = 50 * 1024;
/** Descriptors for the log, the 100 connections of the admin listener, and Node itself. */
const RESERVED_FILES = 160;
/** How often dropped connections are warned about. */
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
 * Limits how many connections a server has open, TLS handshakes included: it closes further ones.
 *
 * @param wanted by default as many as the process can hold.
 * @throws TypeError or RangeError if `wanted` is out of its range.
 * @internal
 */
export function limitConnections(
  server: Server,
  wanted: number | undefined,
  headerBytesMax: number,
): void {
  const tlsBytes = server instanceof tls.Server ? TLS_BYTES : 0;
  const eachBytes = CONNECTION_BYTES + headerBytesMax + tlsBytes;
  const heapBytes = getHeapStatistics().heap_size_limit;
  const files = readFilesMax() ?? Number.POSITIVE_INFINITY;
  const connectionsMax = wanted ?? connectionsThatFit(files, heapBytes, eachBytes);
  assertNumber("connectionsMax", connectionsMax);
  server.maxConnections = connectionsMax;
  let dropped = 0;
  let warnedAt = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    dropped++;
    if (drops.hasSubscribers) drops.publish({ connectionsMax } satisfies DropMessage);
    const now = performance.now();
    if (now - warnedAt < DROP_WARNING_MS) return;
    warnedAt = now;
    publishWarning(
      `Closed new connections because ${connectionsMax} are open (connectionsMax): ${dropped} so far`,
    );
  });
}
