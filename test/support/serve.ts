/** Somebody's own servers: one of `node:http`, for a listener or a page, or another program's port. */
import { once } from "node:events";
import http, { type RequestListener, type ServerOptions } from "node:http";
import net, { type AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export interface Served {
  readonly url: string;
  readonly port: number;
}

/** Serves on a free port; the end of the test ends the server and its connections. */
export async function serve(
  t: TestContext,
  listener: RequestListener,
  options: ServerOptions = {},
): Promise<Served> {
  const server = http.createServer(options, listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port };
}

/** A port for a program that cannot tell which one the system gave it. */
export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
