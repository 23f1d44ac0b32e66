/**
 * The operator's own listener, beside the service: health, metrics, status.
 *
 * It starts before the store is open, so that a long start can be watched, and closes last. It sees
 * the `Status` port and the channels, and nothing of the store. It keeps no process alive.
 *
 * It reads only: GET and HEAD, no bodies, no tokens. Pages of other origins cannot read an answer.
 */
import http, { type Server } from "node:http";
import { publishWarning } from "../core/channels.ts";
import type { AdminAddress } from "../core/host-port.ts";
import { assertMethods, assertText } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import { encodeReply, errorReply, replyHeaders } from "../http/reply.ts";
import { describeParserFault, NODE_HEADERS_MAX } from "../http/request-head.ts";
import { nameRequest } from "../http/request-message.ts";
import { assertAdminAddress, isLocal, isOwnHost, listen } from "./address.ts";
import { answer } from "./answers.ts";
import type { Recorder } from "./recorder.ts";
import { Sources } from "./status.ts";

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

/** More than a scraper and its people need. */
const CONNECTIONS_MAX = 100;
const REQUEST_TIMEOUT_MS = 10_000;
const CONNECTION_CHECK_INTERVAL_MS = 1000;

/** In every answer; the status page replaces the policy. */
const HEADERS = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
};

/** Its figures cover the whole process: the channels report every server in it. */
export class AdminServer {
  /** Where it listens: `http://127.0.0.1:9180`, or `unix:` and a path. */
  readonly url: string;
  readonly #server: Server;
  readonly #recorder: Recorder;

  private constructor(server: Server, url: string, recorder: Recorder) {
    this.#server = server;
    this.url = url;
    this.#recorder = recorder;
  }

  /**
   * Listens, and counts from here on.
   *
   * @throws the system's error if the address cannot be used (`code` `EADDRINUSE`, `EACCES`, …);
   * TypeError or RangeError for an option that is missing, of the wrong type or out of its range.
   */
  static async start({ address, status, version, hosts }: AdminOptions): Promise<AdminServer> {
    assertAdminAddress(address);
    assertMethods("status", status, ["state", "store", "tokens", "freeBytes"]);
    assertText("version", version);
    for (const host of hosts ?? []) assertText("hosts", host);
    const sources = new Sources(status, version);
    const server = createServer((host) => isOwnHost(host, address, hosts), sources);
    let url: string;
    try {
      url = await listen(server, address);
    } catch (error) {
      server.close(); // it may listen on a socket whose mode cannot be set
      sources.recorder.close();
      throw error;
    }
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
    server.unref();
    if (!isLocal(address)) {
      publishWarning(
        `The admin listener at ${url} asks for no token, and other machines may reach it; ` +
          "let it listen on 127.0.0.1 or a socket, or protect it with a firewall",
      );
    }
    return new AdminServer(server, url, sources.recorder);
  }

  /** Closes at once, and removes its socket. */
  async close(): Promise<void> {
    this.#recorder.close();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function createServer(isOwn: (host: string | undefined) => boolean, sources: Sources): Server {
  const server = http.createServer({
    headersTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: CONNECTION_CHECK_INTERVAL_MS,
    insecureHTTPParser: false, // whatever NODE_OPTIONS says
    requireHostHeader: false, // answers.ts checks it
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.maxHeadersCount = NODE_HEADERS_MAX;
  server.timeout = REQUEST_TIMEOUT_MS;
  server.on("request", async (req, res) => {
    const reply = await answer(req, isOwn, sources);
    res.writeHead(reply.status, { ...HEADERS, ...replyHeaders(reply, nameRequest(req)) });
    res.end(req.method === "HEAD" ? undefined : reply.body);
  });
  server.on("clientError", (error, socket) => {
    const fault = describeParserFault(error);
    if (fault === undefined || !socket.writable) socket.destroy();
    else socket.end(encodeReply(errorReply(fault), nameRequest()));
  });
  return server;
}
