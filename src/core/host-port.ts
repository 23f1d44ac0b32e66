/** A host and a port as the authority of a URL has them (RFC 3986 section 3.2). */

/** `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`. */
export function formatHostPort(host: string, port: number): string {
  // Of hosts, only the addresses of IPv6 hold a colon.
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
