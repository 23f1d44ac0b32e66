/** Addresses of listeners as people read and type them. */

/** The address of the admin listener: a host and a port, or the path of a Unix socket. */
export type AdminAddress =
  | { readonly host: string; readonly port: number }
  | { readonly socketPath: string };

/** `http://[::1]:9180`, or `unix:` and the path. @internal */
export function formatAdminAddress(address: AdminAddress): string {
  if ("socketPath" in address) return `unix:${address.socketPath}`;
  return `http://${formatHostPort(address.host, address.port)}`;
}

/** `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` (RFC 3986 section 3.2). @internal */
export function formatHostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`; // only IPv6 has colons
}
