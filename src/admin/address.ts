/**
 * The address of the admin listener: how it is typed, and who can reach it. The
 * listener asks for no token, so that is all its protection.
 */
import { isIP } from "node:net";
import type { AdminAddress } from "../core/host-port.ts";
import { assertNumber, assertSocketPath, assertText } from "../core/options.ts";

/**
 * Reads `127.0.0.1:9180`, `[::1]:9180`, `localhost:9180` or a path with a slash
 * in it, `/run/plant-store/admin.sock`. Port 0 picks a free one.
 *
 * @throws RangeError when the text is neither.
 */
export function parseAdminAddress(text: string): AdminAddress {
  if (text.includes("/")) {
    assertSocketPath("admin", text);
    return { socketPath: text };
  }
  const [, host = "", port = ""] = /^(.+):([0-9]{1,5})$/.exec(text) ?? [];
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const isAddress = host === bare ? isIP(host) === 4 || NAME.test(host) : isIP(bare) === 6;
  if (isAddress && Number(port) <= 65_535) return { host: bare, port: Number(port) };
  throw new RangeError(
    `admin: expected HOST:PORT or the path of a socket with a slash in it, got "${text}"`,
  );
}

const NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;

/** @throws TypeError or RangeError, naming the option, when it is no address. @internal */
export function assertAdminAddress(address: AdminAddress): void {
  const given = { ...address }; // also where it is no object
  if ("socketPath" in given) assertSocketPath("address.socketPath", given.socketPath);
  else {
    assertText("address.host", given.host);
    assertNumber("port", given.port);
  }
}

/** Whether only this machine reaches it. @internal */
export function isLocal(address: AdminAddress): boolean {
  return "socketPath" in address || isLoopback(address.host);
}

/** A name proves nothing, but for the one that is reserved. */
function isLoopback(host: string): boolean {
  if (host.startsWith("127.")) return isIP(host) === 4;
  return host === "::1" || host.toLowerCase() === "localhost";
}

/**
 * Whether a Host header names this listener itself. A page of another origin
 * can have its own name resolve to our address (DNS rebinding), and would be
 * let read the answers; it cannot make its name an IP address or `localhost`.
 * No header means HTTP/1.0, and no browser.
 * @internal
 */
export function isOwnHost(header: string | undefined, address: AdminAddress): boolean {
  if ("socketPath" in address) return true; // no browser gets there
  if (header === undefined) return true;
  const host = header.replace(/:[0-9]*$/, "").toLowerCase();
  const literal = host.replace(/^\[(.*)\]$/, "$1");
  return isIP(literal) !== 0 || host === "localhost" || host === address.host.toLowerCase();
}
