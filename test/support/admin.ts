/** An admin listener that shows the status of a test. */
import { request as httpRequest } from "node:http";
import type { TestContext } from "node:test";
import { AdminServer } from "../../src/admin/server.ts";
import type { AdminAddress } from "../../src/core/options.ts";
import type {
  DatabaseStatus,
  DiskStatus,
  ServiceState,
  StartProgress,
  Status,
  StoreStatus,
} from "../../src/core/services.ts";

/** A status that the test sets. The tests of the program use the real one. */
class TestStatus implements Status {
  current: ServiceState = "ready";
  known: StoreStatus | undefined = { plants: 7, logBytes: 400, queueBytes: 0 };
  listed: ReturnType<Status["tokens"]> = [];

  read: StartProgress | undefined;

  state(): ServiceState {
    return this.current;
  }
  progress(): StartProgress | undefined {
    return this.read;
  }
  store(): StoreStatus | undefined {
    return this.known;
  }
  overDatabase: DatabaseStatus | undefined;
  database(): DatabaseStatus | undefined {
    return this.overDatabase;
  }
  tokens(): ReturnType<Status["tokens"]> {
    return this.listed;
  }
  dataFolder: string | undefined = "/var/lib/plant-store";
  folder(): string | undefined {
    return this.dataFolder;
  }
  free: () => Promise<number | undefined> = async () => 1024;

  totalBytes = 4096;
  async disk(): Promise<DiskStatus | undefined> {
    const freeBytes = await this.free();
    return freeBytes === undefined ? undefined : { freeBytes, totalBytes: this.totalBytes };
  }
  serviceUrl: string | undefined = "http://127.0.0.1:8080";
  url(): string | undefined {
    return this.serviceUrl;
  }
}

export interface Admin {
  readonly status: TestStatus;
  readonly server: AdminServer;
  get(path: string, request?: AdminRequest): Promise<AdminAnswer>;
  /** Has the next request make its text anew. */
  wait(): void;
}

interface AdminRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

interface AdminAnswer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export async function startAdmin(
  t: TestContext,
  address: AdminAddress = { host: "127.0.0.1", port: 0 },
): Promise<Admin> {
  const status = new TestStatus();
  const server = await AdminServer.start({ address, status, version: "1.2.3" });
  t.after(() => server.close());
  const { now } = performance;
  let waitedMs = 0;
  return {
    status,
    server,
    get: (path, request) => ask(server.url, path, request),
    wait: () => {
      waitedMs += 100;
      t.mock.method(performance, "now", () => now.call(performance) + waitedMs);
    },
  };
}

/** One request to an admin listener. */
export function ask(
  url: string,
  path: string,
  { method = "GET", headers = {} }: AdminRequest = {},
): Promise<AdminAnswer> {
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
