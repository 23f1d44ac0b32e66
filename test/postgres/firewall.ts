/** A proxy that can forget its connections: their packets are dropped, and new ones work. */
import { once } from "node:events";
import net from "node:net";
import type { Cleanup } from "./cluster.ts";

/** @param to - A URL with a host and a port. Returns the URL through the proxy, and what drops all packets. */
export async function startFirewall(cleanup: Cleanup, to: string) {
  const { hostname, port } = new URL(to);
  const sockets = new Set<net.Socket>();
  const firewall = net.createServer((client) => {
    const server = net.connect(Number(port), hostname);
    for (const socket of [client, server]) sockets.add(socket.on("error", () => {}));
    client.pipe(server).pipe(client);
  });
  await once(firewall.listen(0, "127.0.0.1"), "listening");
  cleanup.after(() => {
    firewall.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port: through } = firewall.address() as net.AddressInfo;
  const forget = () => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  return { url: to.replace(`:${port}/`, `:${through}/`), forget };
}
