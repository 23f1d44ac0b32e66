/**
 * The operator's own listener, beside the service: health, metrics, status.
 *
 * It starts before the store is open, so that somebody can see it start, and
 * ends last. It sees the `Status` port and the diagnostics channels, and
 * nothing of the store. It keeps no process alive by itself.
 */
import { once } from "node:events";
import http, { type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { publishWarning } from "../core/channels.ts";
import { type AdminAddress, formatAdminAddress } from "../core/host-port.ts";
import { assertMethods, assertText } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import { encodeReply, errorReply } from "../http/reply.ts";
import { describeParserFault, NODE_HEADERS_MAX } from "../http/request-head.ts";
import { nameRequest } from "../http/request-message.ts";
import { assertAdminAddress, isLocal } from "./address.ts";
import { FreeBytes } from "./free-bytes.ts";
import { answerAdmin } from "./listener.ts";
import { EventLoopDelay } from "./process-metrics.ts";
import { Recorder } from "./recorder.ts";
import { listenOnPath } from "./socket.ts";

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

/** Counts what the channels tell, which are the process's: several servers in one are told together. */
export class AdminServer {
  /** Where it listens: `http://127.0.0.1:9180`, or `unix:` and a path. */
  readonly url: string;
  readonly #server: Server;
  readonly #recorder: Recorder;
  readonly #delay: EventLoopDelay;

  private constructor(server: Server, url: string, recorder: Recorder, delay: EventLoopDelay) {
    this.#server = server;
    this.url = url;
    this.#recorder = recorder;
    this.#delay = delay;
  }

  /**
   * Starts to listen. What is counted is counted from here on.
   *
   * @throws the system's error when the address cannot be had (`code`
   * `EADDRINUSE`, `EACCES`, …); TypeError or RangeError for an option that is
   * missing, of the wrong type or out of its range.
   */
  static async start({ address, status, version }: AdminOptions): Promise<AdminServer> {
    assertAdminAddress(address);
    assertMethods("status", status, ["state", "store", "tokens", "freeBytes"]);
    assertText("version", version);
    const recorder = new Recorder();
    const delay = new EventLoopDelay();
    const freeBytes = new FreeBytes(status);
    const sources = { address, status, freeBytes, build: { version }, recorder, delay };
    const server = createServer();
    server.on("request", (req, res) => void answerAdmin(req, res, sources));
    try {
      await listen(server, address);
    } catch (error) {
      server.close(); // it may listen on a socket whose mode cannot be set
      recorder.close();
      delay.close();
      throw error;
    }
    server.on("error", (error) => publishWarning("Cannot accept a connection", error));
    server.unref();
    const url = formatAdminAddress(boundAddress(server, address));
    if (!isLocal(address)) {
      publishWarning(
        `The admin listener at ${url} asks nobody for a token, and other machines may reach it; ` +
          "let it listen on 127.0.0.1 or a socket, or have a firewall before it",
      );
    }
    return new AdminServer(server, url, recorder, delay);
  }

  /** Stops at once; a socket is removed. */
  async close(): Promise<void> {
    this.#recorder.close();
    this.#delay.close();
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
    if (fault === undefined || !(socket as Socket).writable) socket.destroy();
    else socket.end(encodeReply(errorReply(fault), nameRequest()));
  });
  return server;
}

async function listen(server: Server, address: AdminAddress): Promise<void> {
  if ("socketPath" in address) return listenOnPath(server, address.socketPath);
  const listening = once(server, "listening");
  server.listen({ ...address, exclusive: true }); // by this process, also as a worker of node:cluster
  await listening;
}

/** With the port that was picked for 0. */
function boundAddress(server: Server, address: AdminAddress): AdminAddress {
  if ("socketPath" in address) return address;
  return { host: address.host, port: (server.address() as AddressInfo).port };
}
