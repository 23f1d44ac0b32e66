/** A proxy that can forget its connections: their packets are dropped, and new ones work. */
import { once } from "node:events";
import net from "node:net";
import type { Cleanup } from "./cluster.ts";

interface Firewall {
  /** The given URL, through the proxy. */
  readonly url: string;
  /** Drops the packets of every connection that is open now, without a reset. */
  forget(): void;
}

/** @param to - A URL with a host and a port. */
export async function startFirewall(cleanup: Cleanup, to: string): Promise<Firewall> {
  const { hostname, port } = new URL(to);
  const sockets = new Set<net.Socket>();
  const firewall = net.createServer((client) => {
    const server = net.connect(Number(port), hostname);
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(one.on("error", () => {}));
      one.pipe(other);
    }
  });
  firewall.listen(0, "127.0.0.1");
  await once(firewall, "listening");
  cleanup.after(() => {
    firewall.close();
    for (const socket of sockets) socket.destroy();
  });
  const through = (firewall.address() as net.AddressInfo).port;
  const forget = () => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  return { url: to.replace(`:${port}/`, `:${through}/`), forget };
}
