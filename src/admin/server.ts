/**
 * The operator's own listener, beside the service: health, metrics, status.
 *
 * It starts before the store is open, so that a long start can be watched, and closes last. It sees
 * the `Status` port and the channels, and nothing of the store. It keeps no process alive.
 *
 * It reads only: GET and HEAD, no bodies, no tokens. Pages of other origins cannot read an answer.
 */

import type { Server } from "node:http";
import { publishWarning } from "../core/channels.ts";
import { type AdminAddress, assertMethods, assertText } from "../core/options.ts";
import type { Status } from "../core/services.ts";
import { Connections } from "../http/connections.ts";
import { createServer } from "../http/server.ts";
import { assertAdminAddress, isLocal, isOwnHost, listen } from "./address.ts";
import { AdminHandler } from "./answers.ts";
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

/** Of each connection: a hundred answers of some 30 KiB that are not read hold 3 MiB, without a budget. */
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
  static async start({ address, status, version, hosts }: AdminOptions): Promise<AdminServer> {
    assertAdminAddress(address);
    assertMethods("status", status, ["state", "store", "tokens", "freeBytes"]);
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
