/**
 * The operator's own listener, beside the service: health, metrics, status page.
 *
 * It starts before the store is open, so that a long start can be watched, and closes last. It reads only,
 * and asks for no token: its address is its only protection. Everything that it shows is in memory, so a
 * response is complete when its request has arrived; the connection closes with it, and no body is read beyond
 * the packet of its head. It keeps no process alive.
 */
import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { ERRORS, type RequestErrorCode, statusOf } from "../core/errors.ts";
import { type AdminAddress, formatAdminAddress } from "../core/options.ts";
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
 * Listens, and counts from here on what the channels report, which is every server in the process.
 *
 * @throws the system's error if the address cannot be used (`code` `EADDRINUSE`, `EACCES`, …).
 */
export async function startAdminServer(
  address: AdminAddress,
  status: Status,
): Promise<AdminServer> {
  const recorder = new Recorder();
  const pages = pagesOf(status, recorder);
  const isLocal = isLoopback(address.host);
  const limits = { headersTimeout: 5000, requestTimeout: 5000, connectionsCheckingInterval: 5000 };
  const server = http.createServer(limits, (req, res) => respond(req, res, pages, isLocal));
  server.timeout = 10_000; // of a client that reads nothing
  server.maxConnections = 100; // more than a scraper and its people need
  server.maxRequestsPerSocket = 1; // further ones of the same packet get a bare 503
  server.listen(address);
  await once(server, "listening").catch((error) => {
    recorder.close();
    throw error;
  });
  server.unref();
  const url = formatAdminAddress({ ...address, port: (server.address() as AddressInfo).port });
  if (!isLocal) {
    publishWarning(
      `The admin listener at ${url} asks for no token, and other machines may reach it; ` +
        "let it listen on 127.0.0.1, or protect it with a firewall",
    );
  }
  return {
    url,
    async close() {
      recorder.close();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Whether only this machine reaches it: of names, `localhost` alone is certain. @internal */
export function isLoopback(host: string): boolean {
  return (isIP(host) === 4 && host.startsWith("127.")) || /^(::1|localhost)$/i.test(host);
}

/**
 * Whether a Host header is an IP address, or a name without a dot. A page of another site can have a name of its
 * own resolve to this address (DNS rebinding) and read the responses; such a name has a dot. Only HTTP/1.0 has
 * no Host header, and no browser sends that. @internal
 */
export function isSafeHost(header = "localhost"): boolean {
  const host = header.replace(/:[0-9]*$/, "").replace(/^\[(.*)\]$/, "$1");
  return isIP(host) !== 0 || /^[A-Za-z0-9_-]+$/.test(host);
}

interface Page {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** By path; each gets the query. */
type Pages = Readonly<Record<string, (query: string) => Page>>;

function pagesOf(status: Status, recorder: Recorder): Pages {
  return {
    "/": (query) => {
      const reloads = query !== "refresh=0";
      const body = renderPage(status, recorder, reloads);
      const headers = reloads ? { Refresh: "5" } : {};
      return { status: 200, type: "text/html; charset=utf-8", body, headers };
    },
    "/openapi.json": () => json(200, OPENAPI),
    "/healthz": () => json(200, readState(status)),
    "/readyz": () => {
      const state = readState(status);
      return json(state.state === "ready" ? 200 : 503, state);
    },
    "/metrics": () => {
      const body = encodeMetrics(status, recorder);
      return { status: 200, type: "text/plain; version=0.0.4; charset=utf-8", body };
    },
  };
}

function json(status: number, document: unknown, headers = {}): Page {
  return { status, type: "application/json", body: `${JSON.stringify(document)}\n`, headers };
}

function refusal(code: RequestErrorCode, message: string, headers = {}): Page {
  const error = ERRORS[code];
  return json(statusOf(error), { error, message }, headers);
}

function respond(req: IncomingMessage, res: ServerResponse, pages: Pages, isLocal: boolean): void {
  const { status, type, body, headers } = findPage(req, pages, isLocal);
  res.writeHead(status, {
    "Content-Type": type,
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    Connection: "close",
    ...headers,
  });
  res.end(body);
}

function findPage(req: IncomingMessage, pages: Pages, isLocal: boolean): Page {
  const { method = "", url = "", headers } = req;
  const [path = "", query = ""] = url.split("?", 2);
  const makePage = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (isLocal && !isSafeHost(headers.host)) {
    return refusal("bad_request", "Host: expected an IP address or a name without a dot");
  }
  if (makePage === undefined) {
    return refusal("not_found", `path: expected one of ${Object.keys(pages).join(", ")}`);
  }
  if (method !== "GET" && method !== "HEAD") {
    return refusal("method_not_allowed", "method: expected GET or HEAD", { Allow: "GET, HEAD" });
  }
  try {
    return makePage(query);
  } catch (error) {
    // A defect of a page must not end the server.
    publishWarning(`Cannot respond to ${path} of the admin listener`, error);
    return refusal("internal", "internal server error; the reason is in the server's log");
  }
}
