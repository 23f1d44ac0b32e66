/** Somebody's own `node:http` server, for a listener that is mounted in it or a page that it serves. */
import { once } from "node:events";
import http, { type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export interface Served {
  readonly url: string;
  readonly port: number;
}

/** Serves on a free port; the end of the test ends the server and its connections. */
export async function serve(t: TestContext, listener: RequestListener): Promise<Served> {
  const server = http.createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port };
}
