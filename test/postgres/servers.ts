/** Servers over a database, each a process of its own, and a proxy in front of several of them. */
import { spawn } from "node:child_process";
import net from "node:net";
import type { PlantService } from "../../src/core/services.ts";
import { readyUrl } from "../support/messages.ts";
import { type Finished, finish } from "../support/run.ts";
import { until } from "../support/watch.ts";
import type { Cleanup } from "./cluster.ts";

export interface Server {
  readonly url: string;
  readonly pid: number;
  /** Ends it cleanly, or by the signal that is given. */
  stop(signal?: NodeJS.Signals): Promise<Finished>;
  /** What it has printed so far. */
  output(): string;
}

/** Starts a server by its command line, and resolves when it listens. */
export async function startServer(
  cleanup: Cleanup,
  words: readonly string[],
  env: Record<string, string> = {},
): Promise<Server> {
  const [program = "", ...args] = words;
  const child = spawn(program, args, { env: { ...process.env, ...env } });
  cleanup.after(() => child.kill("SIGKILL"));
  const finished = finish(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => {
      output += text;
    });
  }
  const readUrl = () => readyUrl(output) ?? "";
  await until("the server is ready", () => {
    if (child.exitCode !== null) throw new Error(`it has ended: ${output}`);
    return readUrl() !== "";
  });
  const stop = (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    return finished;
  };
  return { url: readUrl(), pid: child.pid ?? 0, stop, output: () => output };
}

/** Starts a proxy that sends each new connection to the next server, or past one that refuses it; returns its URL. */
export async function startProxy(cleanup: Cleanup, urls: () => readonly string[]): Promise<string> {
  let next = 0;
  const open = new Set<net.Socket>();
  const proxy = net.createServer((client) => {
    open.add(client);
    client.on("error", () => {}).on("close", () => open.delete(client));
    const ports = urls().map((url) => Number(new URL(url).port));
    const first = next++;
    const connect = (tries: number) => {
      if (tries === ports.length) return client.destroy();
      const server = net.connect(ports[(first + tries) % ports.length] ?? 0, "127.0.0.1");
      const refused = () => connect(tries + 1);
      server.once("error", refused).once("connect", () => {
        server.off("error", refused).on("error", () => client.destroy());
        server.on("close", () => client.destroy());
        client.on("close", () => server.destroy());
        client.pipe(server).pipe(client);
      });
      return undefined;
    };
    connect(0);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  cleanup.after(() => {
    proxy.close();
    for (const client of open) client.destroy();
  });
  return `http://127.0.0.1:${(proxy.address() as net.AddressInfo).port}`;
}

/** A store for `Load` that creates over HTTP. */
export function overHttp(url: string, token: string): PlantService {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return {
    async create({ id, name }: { readonly id: bigint; readonly name: string }) {
      const body = `{"id":${id},"name":${JSON.stringify(name)}}`;
      const { status } = await fetch(`${url}/plants`, { method: "POST", headers, body });
      if (status === 200) return "created";
      const code = status === 400 ? "conflict" : "failed";
      throw Object.assign(new Error(`it was answered ${status}`), { code });
    },
  } as unknown as PlantService;
}
