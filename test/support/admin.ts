/** An admin listener that shows the status of a test. */
import { request as httpRequest } from "node:http";
import type { TestContext } from "node:test";
import { type AdminServer, startAdminServer } from "../../src/admin/server.ts";
import type { ServiceState, Status } from "../../src/admin/status.ts";
import { clock } from "../../src/clock.ts";

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** A status that the test sets. The tests of the program use the real one. */
export class TestStatus implements Mutable<Status> {
  version = "1.2.3";
  folder: string | undefined = "/var/lib/plant-store";
  url = "http://127.0.0.1:8080";
  disk: Status["disk"] = { freeBytes: 1024, totalBytes: 4096 };
  now: {
    state: ServiceState;
    store: ReturnType<Status["store"]>;
    database: ReturnType<Status["database"]>;
    tokens: ReturnType<Status["tokens"]>;
  } = {
    state: "ready",
    store: { plants: 7, logBytes: 400, queueBytes: 0 },
    database: undefined,
    tokens: [],
  };

  state = () => this.now.state;
  store = () => this.now.store;
  database = () => this.now.database;
  tokens = () => this.now.tokens;
}

export interface Admin {
  readonly status: TestStatus;
  readonly server: AdminServer;
  get(path: string, request?: AdminRequest): Promise<AdminResponse>;
}

interface AdminRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

interface AdminResponse {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export async function startAdmin(
  t: TestContext,
  address = { host: "127.0.0.1", port: 0 },
): Promise<Admin> {
  const status = new TestStatus();
  const server = await startAdminServer(address, status);
  t.after(() => server.close());
  return { status, server, get: (path, request) => ask(server.url, path, request) };
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
export function ask(
  url: string,
  path: string,
  { method = "GET", headers = {} }: AdminRequest = {},
): Promise<AdminResponse> {
  const target = { host: new URL(url).hostname.replace(/^\[|\]$/g, ""), port: new URL(url).port };
  return new Promise((resolve, reject) => {
    const req = httpRequest({ ...target, path, method, headers, agent: false }, (res) => {
      let text = "";
      res.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      res.on("end", () => resolve({ status: res.statusCode, headers: res.headers, text }));
    });
    req.on("error", reject).end();
  });
}

/** The value of each sample, by its name and labels as they are written. */
export function samplesOf(text: string): Map<string, number> {
  return new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const at = line.lastIndexOf(" ");
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
  );
}
