/**
 * The operator's own listener, beside the service: health, metrics, status page.
 *
 * It starts after the service, and closes after it. It asks for no token: its address is its only protection.
 * What it shows is in memory, so it responds at once, and the connection closes. It keeps no process alive.
 */
import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { ERRORS, statusOf } from "../core/errors.ts";
import { formatHostPort } from "../core/text.ts";
import { INTERNAL } from "../http/exchange.ts";
import { ignoreBody, ignoreFollowing } from "../http/node-internals.ts";
import { OPENAPI } from "../http/openapi.ts";
import { encodeMetrics } from "./metrics.ts";
import { Recorder } from "./recorder.ts";
import { readState, type Status } from "./status.ts";
import { renderPage } from "./status-page.ts";

export interface AdminServer {
  /** Where it listens, such as `http://127.0.0.1:9180`. */
  readonly url: string;
  /** Closes at once. */
  close(): Promise<void>;
}

/**
 * Listens, and counts from now on what the channels report, of every server in the process.
 *
 * @throws the system's error if the address cannot be used (`code` `EADDRINUSE`, `EACCES`, …).
 */
export async function startAdminServer(
  address: { readonly host: string; readonly port: number },
  status: Status,
): Promise<AdminServer> {
  const isLocal = isLoopback(address.host);
  const limits = { requestTimeout: 5000, connectionsCheckingInterval: 5000 };
  const server = http.createServer(limits, (req, res) => {
    // Nobody reads a body: a packet may hold thousands of pieces, or of further requests.
    ignoreBody(req);
    ignoreFollowing(req);
    req.socket.removeAllListeners("data").on("data", () => {}); // the parser gets no further packet
    if (isLocal && !isSafeHost(req.headers.host)) {
      refuse(res, ERRORS.bad_request, "Host: expected an IP address or a name without a dot");
    } else respond(req, res, status, recorder);
  });
  server.timeout = 10_000; // of a client that reads nothing
  server.maxConnections = 100; // more than a scraper and its people need
  server.listen(address);
  await once(server, "listening");
  server.on("error", (error) => publishWarning("Cannot accept an admin connection", error));
  const recorder = new Recorder();
  server.unref();
  const { port } = server.address() as AddressInfo;
  const url = `http://${formatHostPort(address.host, port)}`;
  const advice = "let it listen on 127.0.0.1, or protect it with a firewall";
  if (!isLocal) publishWarning(`Other machines may reach ${url}, which needs no token; ${advice}`);
  return {
    url,
    async close() {
      recorder.close();
      server.close().closeAllConnections();
      await once(server, "close");
    },
  };
}

/** Whether only this machine reaches it: of names, `localhost` alone is certain. @internal */
export function isLoopback(host: string): boolean {
  return (isIP(host) === 4 && host.startsWith("127.")) || /^(::1|localhost)$/i.test(host);
}

/**
 * Whether a Host header is an IP address, or a name without a dot: a page of another site can have its own name,
 * which has one, resolve to this address (DNS rebinding), and read the responses. @internal
 */
export function isSafeHost(header = "localhost"): boolean {
  const host = header.replace(/:[0-9]*$/, "").replace(/^\[(.*)\]$/, "$1");
  return isIP(host) !== 0 || /^[A-Za-z0-9_-]+$/.test(host);
}

/** Never throws: a defect of a page must not end the process. */
function respond(req: IncomingMessage, res: ServerResponse, status: Status, recorder: Recorder) {
  const { method = "", url = "" } = req;
  const [path, query] = url.split("?", 2);
  if (method !== "GET" && method !== "HEAD") {
    res.setHeader("Allow", "GET, HEAD");
    return refuse(res, ERRORS.method_not_allowed, `method: expected GET or HEAD, got ${method}`);
  }
  try {
    const { state, message } = readState(status);
    switch (path) {
      case "/":
        if (query !== "refresh=0") res.setHeader("Refresh", "5");
        return send(res, 200, renderPage(status, recorder, query !== "refresh=0"), "text/html");
      case "/healthz":
        return send(res, 200, { state, message });
      case "/readyz":
        return send(res, state === "ready" ? 200 : 503, { state, message });
      case "/metrics":
        return send(res, 200, encodeMetrics(status, recorder), "text/plain; version=0.0.4");
      case "/openapi.json":
        return send(res, 200, OPENAPI);
      default:
        return refuse(res, ERRORS.not_found, "path: expected / (the status page)");
    }
  } catch (error) {
    publishWarning(`Cannot respond to ${path} of the admin listener`, error);
    return refuse(res, ERRORS.internal, INTERNAL);
  }
}

function refuse(res: ServerResponse, error: number, message: string): void {
  send(res, statusOf(error), { error, message });
}

/** Sends text of this type, or anything else as JSON. */
function send(res: ServerResponse, status: number, content: unknown, type?: string): void {
  const body = type === undefined ? `${JSON.stringify(content)}\n` : String(content);
  res.writeHead(status, {
    "Content-Type": type === undefined ? "application/json" : `${type}; charset=utf-8`,
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    Connection: "close",
  });
  res.end(body);
}
