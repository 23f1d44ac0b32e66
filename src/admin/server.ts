/**
 * The operator's own listener, beside the service: health, metrics, status.
 *
 * It starts before the store is open, so that somebody can see it start, and ends last. It sees the
 * `Status` port and the diagnostics channels, and nothing of the store. It keeps no process alive.
 *
 * Everything is read only, so there is GET and HEAD, and no body is ever read. No token is asked
 * for. Pages of other origins are kept out: they cannot read an answer, and a name of theirs that
 * resolves to this machine is refused.
 */
import http, { type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { AdminAddress } from "../core/host-port.ts";
import { assertMethods, assertText } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import { encodeReply, errorReply } from "../http/reply.ts";
import { describeParserFault, findFramingFault, NODE_HEADERS_MAX } from "../http/request-head.ts";
import { nameRequest } from "../http/request-message.ts";
import { pathOf } from "../http/router.ts";
import { assertAdminAddress, isLocal, isOwnHost, listen } from "./address.ts";
import { type Answer, JSON_TYPE, ROUTES, Sources } from "./answers.ts";

export interface AdminOptions {
  /** See `parseAdminAddress`. */
  readonly address: AdminAddress;
  readonly status: Status;
  /** Of the program; shown to people and in `plant_store_build_info`. */
  readonly version: string;
}

/** More than any scraper and its people need, and no burden. */
const CONNECTIONS_MAX = 100;
const REQUEST_TIMEOUT_MS = 10_000;
const CONNECTION_CHECK_INTERVAL_MS = 1000;

/** Counts what the channels report, which are the process's: several servers in one are one. */
export class AdminServer {
  /** Where it listens: `http://127.0.0.1:9180`, or `unix:` and a path. */
  readonly url: string;
  readonly #server: Server;
  readonly #sources: Sources;

  private constructor(server: Server, url: string, sources: Sources) {
    this.#server = server;
    this.url = url;
    this.#sources = sources;
  }

  /**
   * Starts to listen. What is counted is counted from here on.
   *
   * @throws the system's error when the address cannot be had (`code` `EADDRINUSE`, `EACCES`, …);
   * TypeError or RangeError for an option that is missing, of the wrong type or out of its range.
   */
  static async start({ address, status, version }: AdminOptions): Promise<AdminServer> {
    assertAdminAddress(address);
    assertMethods("status", status, ["state", "store", "tokens", "freeBytes"]);
    assertText("version", version);
    const sources = new Sources(status, version);
    const server = createServer();
    server.on("request", (req, res) => void answer(req, res, address, sources));
    let url: string;
    try {
      url = await listen(server, address);
    } catch (error) {
      server.close(); // it may listen on a socket whose mode cannot be set
      sources.close();
      throw error;
    }
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
    server.unref();
    if (!isLocal(address)) {
      publishWarning(
        `The admin listener at ${url} asks nobody for a token, and other machines may reach it; ` +
          "let it listen on 127.0.0.1 or a socket, or have a firewall before it",
      );
    }
    return new AdminServer(server, url, sources);
  }

  /** Stops at once; a socket is removed. */
  async close(): Promise<void> {
    this.#sources.close();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function createServer(): Server {
  const server = http.createServer({
    headersTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: CONNECTION_CHECK_INTERVAL_MS,
    insecureHTTPParser: false, // whatever NODE_OPTIONS says
    requireHostHeader: false, // the listener judges it
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.maxHeadersCount = NODE_HEADERS_MAX;
  server.timeout = REQUEST_TIMEOUT_MS;
  server.on("clientError", (error, socket) => {
    const fault = describeParserFault(error);
    if (fault === undefined || !socket.writable) socket.destroy();
    else socket.end(encodeReply(errorReply(fault), nameRequest()));
  });
  return server;
}

/** The headers of every answer; the page alone widens the policy. */
const HEADERS = {
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** Never throws, never rejects. */
async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  address: AdminAddress,
  sources: Sources,
): Promise<void> {
  const route = async () => findRoute(req, address)(sources);
  const { status, type, body, headers } = await route().catch(refuse);
  const length = Buffer.byteLength(body);
  res.writeHead(status, { "Content-Type": type, "Content-Length": length, ...HEADERS, ...headers });
  res.end(req.method === "HEAD" ? undefined : body);
}

/** @throws PlantStoreError if nothing but an error may be answered. */
function findRoute(req: IncomingMessage, address: AdminAddress): (typeof ROUTES)[string] {
  const fault = findFramingFault(req);
  if (fault !== undefined) throw fault;
  if (!isOwnHost(req.headers.host, address)) {
    throw new PlantStoreError(
      "bad_request",
      "Host: expected an IP address, localhost or the listener's own name (--admin NAME:PORT)",
    );
  }
  const path = pathOf(req.url ?? "");
  const route = Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined;
  if (route === undefined) {
    const known = Object.keys(ROUTES).join(", ");
    throw new PlantStoreError("not_found", `path: expected one of ${known}`);
  }
  if (req.method === "GET" || req.method === "HEAD") return route;
  throw new PlantStoreError(
    "method_not_allowed",
    `method: expected GET or HEAD, got ${req.method}`,
  );
}

function refuse(error: unknown): Answer {
  const { status, body, headers } = errorReply(error);
  if (status === 500) publishWarning("Cannot answer a request to the admin listener", error);
  const allow = status === 405 ? { Allow: "GET, HEAD" } : {};
  // After a fault of the framing nobody knows where the next request begins.
  const close = status === 400 || status === 431 ? { Connection: "close" } : {};
  return { status, type: JSON_TYPE, body, headers: { ...headers, ...allow, ...close } };
}
