/** An admin listener that shows the status of a test. */
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { text as readText } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { startAdminServer } from "../../src/admin/server.ts";
import type { ServiceState, Status } from "../../src/admin/status.ts";
import { clock } from "../../src/clock.ts";

/** A status that the test sets. The tests of the program use the real one. */
export class TestStatus implements Status {
  version = "1.2.3";
  folder: string | undefined = "/var/lib/plant-store";
  url = "http://127.0.0.1:8080";
  disk: Status["disk"] = { freeBytes: 1024, totalBytes: 4096 };
  now = {
    state: "ready" as ServiceState,
    store: { plants: 7, logBytes: 400, queueBytes: 0 } as ReturnType<Status["store"]>,
    database: undefined as ReturnType<Status["database"]>,
    tokens: [] as ReturnType<Status["tokens"]>,
  };

  state = () => this.now.state;
  store = () => this.now.store;
  database = () => this.now.database;
  tokens = () => this.now.tokens;
}

export type Admin = Awaited<ReturnType<typeof startAdmin>>;

type AdminRequest = Pick<RequestOptions, "method" | "headers">;

export async function startAdmin(t: TestContext, address = { host: "127.0.0.1", port: 0 }) {
  const status = new TestStatus();
  const server = await startAdminServer(address, status);
  t.after(() => server.close());
  const get = (path: string, request?: AdminRequest) => ask(server.url, path, request);
  return { status, server, get };
}

/** Has the monotonic clock stand until the returned function moves it. */
export function freezeTime(t: TestContext): (ms: number) => void {
  let now = 5_000_000;
  t.mock.method(clock, "monotonicMs", () => now);
  return (ms) => {
    now += ms;
  };
}

/** One request to an admin listener. */
export async function ask(url: string, path: string, options: AdminRequest = {}) {
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, "");
  const request = httpRequest({ host, port, path, agent: false, ...options }).end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const { statusCode: status, headers } = response;
  return { status, headers, text: await readText(response) };
}
