/** Servers that are not ours: one of `node:http`, and a free port for another program. */
import { once } from "node:events";
import http, { type RequestListener, type ServerOptions } from "node:http";
import net, { type AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { atEnd } from "./folders.ts";

/** Serves on a free port until the test ends, then closes all connections. */
export async function serve(
  t: TestContext,
  listener: RequestListener,
  options: ServerOptions = {},
) {
  const server = http.createServer(options, listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  atEnd(t, () => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port };
}

/** A free port, for a program that cannot report which port the system selected. */
export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
