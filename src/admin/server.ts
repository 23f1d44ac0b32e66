/**
 * The operator's own listener, beside the service: health, metrics, status.
 *
 * It starts before the store is open, so that a long start can be watched, and closes last. It sees
 * the `Status` port and the channels, and nothing of the store. It keeps no process alive.
 *
 * It reads only: GET and HEAD, no tokens, so its address is its only protection. A connection has one request,
 * and closes with the response: a body is never read, beyond the packets that have arrived by then. The texts are
 * ready, or made at most ten times a second, no matter who asks.
 */
import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { type AdminAddress, DEFAULT_HOST, formatAdminAddress } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import { errorReply, okReply, type Reply, replyHeaders } from "../http/answer.ts";
import { OPENAPI } from "../http/openapi.ts";
import { nameRequest, pathOf } from "../http/request-message.ts";
import { encodeMetrics } from "./metrics.ts";
import type { Recorder } from "./recorder.ts";
import { describeState, judgeState, readStatusDocument, Sources, share } from "./status.ts";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "./status-page.ts";

interface AdminOptions {
  /** See `parseAdminAddress`. */
  readonly address: AdminAddress;
  readonly status: Status;
  /** The version of the program, for people and for `plant_store_build_info`. */
  readonly version: string;
}

const LIMITS = { headersTimeout: 5000, requestTimeout: 5000, connectionsCheckingInterval: 1000 };
/** More than a scraper and its people need. */
const CONNECTIONS_MAX = 100;
/** How long a connection may neither send nor take anything. */
const SILENT_MS = 10_000;

/** Its figures cover the whole process: the channels report every server in it. */
export class AdminServer {
  /** Where it listens, such as `http://127.0.0.1:9180`. */
  readonly url: string;
  readonly #server: http.Server;
  readonly #recorder: Recorder;

  private constructor(server: http.Server, url: string, recorder: Recorder) {
    this.#server = server;
    this.url = url;
    this.#recorder = recorder;
  }

  /**
   * Listens, and counts from here on.
   *
   * @throws the system's error if the address cannot be used (`code` `EADDRINUSE`, `EACCES`, …).
   */
  static async start({ address, status, version }: AdminOptions): Promise<AdminServer> {
    const sources = new Sources(status, version);
    const routes = makeRoutes(sources);
    const isChecked = isLoopback(address.host);
    const server = http.createServer(LIMITS, (req, res) => {
      answer(req, routes, isChecked).then((reply) => send(req, res, reply));
    });
    server.maxConnections = CONNECTIONS_MAX;
    server.maxRequestsPerSocket = 1; // further ones that came in the same packet get a bare 503
    server.setTimeout(SILENT_MS);
    try {
      const listening = once(server, "listening");
      server.listen(address);
      await listening;
    } catch (error) {
      sources.recorder.close();
      throw error;
    }
    server.unref();
    const url = formatAdminAddress({ ...address, port: (server.address() as AddressInfo).port });
    if (!isChecked) {
      publishWarning(
        `The admin listener at ${url} asks for no token, and other machines may reach it; ` +
          "let it listen on 127.0.0.1, or protect it with a firewall",
      );
    }
    return new AdminServer(server, url, sources.recorder);
  }

  /** Closes at once. */
  async close(): Promise<void> {
    this.#recorder.close();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

/**
 * Parses `127.0.0.1:9180`, `[::1]:9180`, `localhost:9180`, or a port of 127.0.0.1. Port 0 picks a free port.
 *
 * @throws RangeError if the text is none of them.
 */
export function parseAdminAddress(text: string): AdminAddress {
  const [, host = DEFAULT_HOST, port = ""] = /^(?:(.+):)?([0-9]{1,5})$/.exec(text) ?? [];
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const isAddress = host === bare ? isIP(host) === 4 || NAME.test(host) : isIP(bare) === 6;
  if (port !== "" && isAddress && Number(port) <= 65_535) return { host: bare, port: Number(port) };
  throw new RangeError(`admin: expected HOST:PORT or a port of ${DEFAULT_HOST}, got "${text}"`);
}

const NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;

/** Whether only this machine reaches it: of names, `localhost` alone is certain. @internal */
export function isLoopback(host: string): boolean {
  if (host.startsWith("127.")) return isIP(host) === 4;
  return host === "::1" || host.toLowerCase() === "localhost";
}

/**
 * Whether a Host header is an IP address, or a name without a dot. A page of another site can make a name of
 * its own resolve to this address (DNS rebinding) and read the responses; such a name has a dot. Only HTTP/1.0
 * has no Host header, which no browser sends. @internal
 */
export function isSafeHost(header = "localhost"): boolean {
  const host = header.replace(/:[0-9]*$/, "");
  return isIP(host.replace(/^\[(.*)\]$/, "$1")) !== 0 || /^[A-Za-z0-9_-]+$/.test(host);
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
        const isAsked = sources.status.store()?.msSinceRefusal !== undefined;
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

/** The status page has a policy of its own. */
const HEADERS = { "Content-Security-Policy": "default-src 'none'", Connection: "close" };

/** Never rejects. */
async function answer(
  req: IncomingMessage,
  routes: ReadonlyMap<string, Route>,
  isChecked: boolean,
): Promise<Reply> {
  try {
    return await findRoute(req, routes, isChecked)();
  } catch (error) {
    const reply = errorReply(error);
    if (reply.status === 500)
      publishWarning("Cannot answer a request to the admin listener", error);
    return reply.status === 405 ? { ...reply, headers: { Allow: "GET, HEAD" } } : reply;
  }
}

/** @throws PlantStoreError if the request is refused. */
function findRoute(
  { headers, url = "", method }: IncomingMessage,
  routes: ReadonlyMap<string, Route>,
  isChecked: boolean,
): Route {
  if (isChecked && !isSafeHost(headers.host)) {
    throw new PlantStoreError(
      "bad_request",
      "Host: expected an IP address or a name without a dot",
    );
  }
  const route = routes.get(pathOf(url));
  if (route === undefined) {
    const known = [...routes.keys()].join(", ");
    throw new PlantStoreError("not_found", `path: expected one of ${known}`);
  }
  if (method === "GET" || method === "HEAD") return route;
  throw new PlantStoreError("method_not_allowed", `method: expected GET or HEAD, got ${method}`);
}

function send(req: IncomingMessage, res: ServerResponse, reply: Reply): void {
  res.writeHead(reply.status, { ...HEADERS, ...replyHeaders(reply, nameRequest(req)) });
  res.end(req.method === "HEAD" ? undefined : reply.body);
}
