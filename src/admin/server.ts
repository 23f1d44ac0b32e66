/**
 * The operator's own listener, beside the service: health, metrics, status.
 *
 * It starts before the store is open, so that a long start can be watched, and closes last. It sees
 * the `Status` port and the channels, and nothing of the store. It keeps no process alive.
 *
 * It reads only: GET and HEAD, no bodies, no tokens. The texts are ready, or made at most ten times a second,
 * no matter who asks. Requests that browsers make for pages of other sites are refused. So its
 * address is its only protection: a Unix socket belongs to its owner alone from the first moment, and one
 * that a dead process left is replaced.
 */
import { once } from "node:events";
import { chmodSync, lstatSync, rmSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import net, { type AddressInfo, isIP, type Server } from "node:net";
import { isMainThread } from "node:worker_threads";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import {
  type AdminAddress,
  assertMethods,
  assertNames,
  assertNumber,
  assertSocketPath,
  assertText,
  formatAdminAddress,
} from "../core/options.ts";
import type { Status } from "../core/services.ts";
import {
  afterAnswer,
  encodeReply,
  errorReply,
  Lingering,
  lingerAfterEnd,
  okReply,
  type Reply,
  replyHeaders,
} from "../http/answer.ts";
import { Connections } from "../http/connections.ts";
import { OPENAPI } from "../http/openapi.ts";
import { nameRequest, pathOf } from "../http/request-message.ts";
import { createServer } from "../http/server.ts";
import { encodeMetrics } from "./metrics.ts";
import type { Recorder } from "./recorder.ts";
import { describeState, judgeState, readStatusDocument, Sources, share } from "./status.ts";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "./status-page.ts";

export interface AdminOptions {
  /** See `parseAdminAddress`. */
  readonly address: AdminAddress;
  readonly status: Status;
  /** The version of the program, for people and for `plant_store_build_info`. */
  readonly version: string;
  /**
   * Further names by which the listener may be called, such as that of a container. Pages of other
   * sites could use it by any other name. Default: none.
   */
  readonly hosts?: readonly string[] | undefined;
}

/** Of each connection: a hundred answers of some 60 KiB that are not read hold 6 MiB, without a budget. */
const UNANSWERED_MAX = 1;
const LIMITS = {
  connectionsMax: 100, // more than a scraper and its people need
  headerTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  keepAliveTimeoutMs: 10_000,
  stallTimeoutMs: 10_000,
};

/** Its figures cover the whole process: the channels report every server in it. */
export class AdminServer {
  /** Where it listens: `http://127.0.0.1:9180`, or `unix:` and a path. */
  readonly url: string;
  readonly #server: Server;
  readonly #connections: Connections;
  readonly #recorder: Recorder;

  private constructor(server: Server, url: string, connections: Connections, recorder: Recorder) {
    this.#server = server;
    this.url = url;
    this.#connections = connections;
    this.#recorder = recorder;
  }

  /**
   * Listens, and counts from here on.
   *
   * @throws the system's error if the address cannot be used (`code` `EADDRINUSE`, `EACCES`, …);
   * TypeError or RangeError for an option that is missing, of the wrong type or out of its range.
   */
  static async start(options: AdminOptions): Promise<AdminServer> {
    assertNames(options, ["address", "status", "version", "hosts"]);
    const { address, status, version, hosts } = options;
    assertAdminAddress(address);
    assertMethods("status", status, ["state", "store", "tokens", "disk"]);
    assertText("version", version);
    for (const host of hosts ?? []) assertText("hosts", host);
    const sources = new Sources(status, version);
    const handler = new AdminHandler((host) => isOwnHost(host, address, hosts), sources);
    const connections = new Connections(handler, LIMITS, UNANSWERED_MAX);
    const server = createServer(LIMITS, connections);
    let url: string;
    try {
      url = await listen(server, address);
    } catch (error) {
      server.close(); // it may listen on a socket whose mode cannot be set
      sources.recorder.close();
      throw error;
    }
    server.unref();
    if (!isLocal(address)) {
      publishWarning(
        `The admin listener at ${url} asks for no token, and other machines may reach it; ` +
          "let it listen on 127.0.0.1 or a socket, or protect it with a firewall",
      );
    }
    return new AdminServer(server, url, connections, sources.recorder);
  }

  /** Closes at once, and removes its socket. */
  async close(): Promise<void> {
    this.#recorder.close();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#connections.cutAll();
    await closed;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Parses `127.0.0.1:9180`, `[::1]:9180`, `localhost:9180`, or a path that contains a slash,
 * `/run/plant-store/admin.sock`. Port 0 picks a free port.
 *
 * @throws RangeError if the text is neither.
 */
export function parseAdminAddress(text: string): AdminAddress {
  if (text.includes("/")) {
    assertSocketPath("admin", text);
    return { socketPath: text };
  }
  const [, host = "", port = ""] = /^(.+):([0-9]{1,5})$/.exec(text) ?? [];
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const isAddress = host === bare ? isIP(host) === 4 || NAME.test(host) : isIP(bare) === 6;
  if (isAddress && Number(port) <= 65_535) return { host: bare, port: Number(port) };
  throw new RangeError(
    `admin: expected HOST:PORT or the path of a socket with a slash in it, got "${text}"`,
  );
}

const NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;

/** @throws TypeError or RangeError that names the option, if it is no address. */
function assertAdminAddress(address: AdminAddress): void {
  const given = { ...address }; // also if it is no object
  if ("socketPath" in given) assertSocketPath("address.socketPath", given.socketPath);
  else {
    assertText("address.host", given.host);
    assertNumber("port", given.port);
  }
}

/** Whether only this machine reaches it: of names, `localhost` alone is certain. @internal */
export function isLocal(address: AdminAddress): boolean {
  if ("socketPath" in address) return true;
  const { host } = address;
  if (host.startsWith("127.")) return isIP(host) === 4;
  return host === "::1" || host.toLowerCase() === "localhost";
}

/**
 * Whether a Host header names this listener. A page of another origin can make its own name resolve
 * to this address (DNS rebinding) and read the answers, but its name is no IP address, `localhost`
 * or one of `hosts`. Only HTTP/1.0 has no Host header, which no browser sends. @internal
 */
export function isOwnHost(
  header: string | undefined,
  address: AdminAddress,
  hosts: readonly string[] = [],
): boolean {
  if ("socketPath" in address || header === undefined) return true; // not a browser
  const host = header.replace(/:[0-9]*$/, "").toLowerCase();
  const literal = host.replace(/^\[(.*)\]$/, "$1");
  if (isIP(literal) !== 0 || host === "localhost") return true;
  return [address.host, ...hosts].some((name) => name.toLowerCase() === host);
}

/** @returns the URL, with the port that was picked for 0. @throws the system's error. */
async function listen(server: Server, address: AdminAddress): Promise<string> {
  if ("socketPath" in address) {
    await listenOnPath(server, address.socketPath);
    return formatAdminAddress(address);
  }
  const listening = once(server, "listening");
  server.listen({ ...address, exclusive: true }); // also in a worker of node:cluster
  await listening;
  return formatAdminAddress({ ...address, port: (server.address() as AddressInfo).port });
}

/** @throws the system's error; `EADDRINUSE` if a process listens there, or it is no socket. */
async function listenOnPath(server: Server, path: string): Promise<void> {
  await removeStale(path);
  const listening = once(server, "listening");
  // The mask belongs to the process, so it is set for one call only; a worker thread cannot set it.
  const mask = isMainThread ? process.umask(0o077) : undefined;
  try {
    // Exclusive: else the primary of node:cluster makes the socket, with its own mask.
    server.listen({ path, exclusive: true });
  } finally {
    if (mask !== undefined) process.umask(mask);
  }
  // A path is bound at once, or it belongs to another program.
  if (server.listening) chmodSync(path, 0o600);
  await listening;
}

async function removeStale(path: string): Promise<void> {
  const time = socketTime(path);
  if (time === undefined) return;
  const socket = net.connect({ path });
  const isRefused = await once(socket, "connect").then(
    () => false,
    ({ code }: NodeJS.ErrnoException) => code === "ECONNREFUSED",
  );
  socket.destroy();
  // By now another process may have replaced it.
  if (isRefused && time === socketTime(path)) rmSync(path, { force: true });
}

/** The change time of a socket identifies it; an inode may be reused. */
function socketTime(path: string): bigint | undefined {
  const entry = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return entry?.isSocket() ? entry.ctimeNs : undefined;
}

type Route = () => Reply | Promise<Reply>;

function makeRoutes(sources: Sources): ReadonlyMap<string, Route> {
  const page = okReply(STATUS_PAGE, {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": STATUS_PAGE_POLICY,
  });
  const description = json(OPENAPI);
  return new Map(
    Object.entries<Route>({
      "/": () => page,
      "/openapi.json": () => description,
      "/healthz": () => json({ status: "ok" }),
      "/readyz": async () => {
        // A probe is impatient, so the disk is asked only if its answer matters.
        const isAsked = sources.status.store()?.refusedMsAgo !== undefined;
        const state = judgeState(sources, isAsked ? await sources.disk() : undefined);
        const reply = json({ state, message: describeState(state, sources.status) });
        return { ...reply, status: state === "ready" ? 200 : 503 };
      },
      "/metrics": share(async () => {
        const text = encodeMetrics(sources, await sources.disk());
        return okReply(text, { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" });
      }),
      "/status.json": share(async () => {
        return json(readStatusDocument(sources, await sources.disk()));
      }),
    }),
  );
}

function json(document: unknown): Reply {
  return okReply(`${JSON.stringify(document)}\n`);
}

/** In every answer; the status page replaces the policy. */
const HEADERS = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
};

/** Publishes nothing, so that the metrics of the service do not count its answers. @internal */
export class AdminHandler {
  readonly lingering = new Lingering();
  readonly #isOwn: (host: string | undefined) => boolean;
  readonly #routes: ReadonlyMap<string, Route>;

  /** @param isOwn whether a Host header names the listener. */
  constructor(isOwn: (host: string | undefined) => boolean, sources: Sources) {
    this.#isOwn = isOwn;
    this.#routes = makeRoutes(sources);
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    this.#answer(req).then((reply) => send(req, res, reply));
  }

  refuse(req: IncomingMessage, res: ServerResponse, fault: unknown): void {
    lingerAfterEnd({ req, res, lingering: this.lingering });
    send(req, res, errorReply(fault));
  }

  refuseBytes(socket: IncomingMessage["socket"], fault: unknown, last?: ServerResponse): void {
    const text = encodeReply(errorReply(fault), nameRequest());
    afterAnswer(last, () => this.lingering.close(socket, text));
  }

  /** Never rejects. */
  async #answer(req: IncomingMessage): Promise<Reply> {
    try {
      return await this.#findRoute(req)();
    } catch (error) {
      const reply = errorReply(error);
      if (reply.status === 500)
        publishWarning("Cannot answer a request to the admin listener", error);
      return reply.status === 405 ? { ...reply, headers: { Allow: "GET, HEAD" } } : reply;
    }
  }

  /** @throws PlantStoreError if the request is refused. */
  #findRoute({ headers, url = "", method }: IncomingMessage): Route {
    if (!this.#isOwn(headers.host)) {
      throw new PlantStoreError(
        "bad_request",
        "Host: expected an IP address, localhost or a name of the listener (--admin-host NAME)",
      );
    }
    // A page of the same site may link here: a dashboard on another port of this machine, for one.
    if (headers["sec-fetch-site"] === "cross-site") {
      throw new PlantStoreError(
        "bad_request",
        "Sec-Fetch-Site: expected no page of another site; open the address without its link",
      );
    }
    const route = this.#routes.get(pathOf(url));
    if (route === undefined) {
      const known = [...this.#routes.keys()].join(", ");
      throw new PlantStoreError("not_found", `path: expected one of ${known}`);
    }
    if (method === "GET" || method === "HEAD") return route;
    throw new PlantStoreError("method_not_allowed", `method: expected GET or HEAD, got ${method}`);
  }
}

function send(req: IncomingMessage, res: ServerResponse, reply: Reply): void {
  if (res.headersSent) return; // a fault of the body was answered first
  res.writeHead(reply.status, { ...HEADERS, ...replyHeaders(reply, nameRequest(req)) });
  res.end(req.method === "HEAD" ? undefined : reply.body);
}
