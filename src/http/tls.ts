/**
 * HTTPS: the certificate of a server, and the connections that still shake hands.
 *
 * Invariant. A pair of certificate and key that does not fit is refused before
 * anything changes: a running server keeps the pair it has. Connections that
 * are open live on under the pair they began with.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { Server, ServerOptions } from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import { createSecureContext } from "node:tls";

/** A certificate and its private key, both as PEM. */
export interface TlsOptions {
  /** The server's certificate, with those between it and the root behind it. */
  readonly cert: string | Buffer;
  /** The private key of that certificate, not encrypted. */
  readonly key: string | Buffer;
}

/** Older versions of the protocol are broken (RFC 8996). */
const MIN_VERSION = "TLSv1.2";

/**
 * Every cipher of TLS 1.3; of 1.2 those with forward secrecy and authenticated encryption, as Mozilla's
 * intermediate configuration has them: what was recorded stays secret if the key is stolen later.
 */
const CIPHERS = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
].join(":");

/** @throws Error when certificate and key are no pair. @internal */
export function createTlsServer(settings: ServerOptions, tls: TlsOptions): Server {
  return https.createServer({
    ...settings,
    ...secureContextOf(tls),
    // A client that never finishes its handshake is slow with its headers.
    handshakeTimeout: settings.headersTimeout,
    // What node:http does by itself for plain connections.
    noDelay: true,
    allowHalfOpen: true,
  } as https.ServerOptions);
}

/** @throws as `createTlsServer`, and then nothing has changed. @internal */
export function replaceCertificate(server: Server, tls: TlsOptions): void {
  if (!(server instanceof https.Server)) {
    throw new TypeError("Cannot replace the certificate: the server was started without one");
  }
  server.setSecureContext(secureContextOf(tls));
}

function secureContextOf({ cert, key }: TlsOptions) {
  const context = { cert, key, minVersion: MIN_VERSION, ciphers: CIPHERS } as const;
  try {
    // By ourselves: Node takes an empty key or certificate for none.
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
      throw new Error("the key belongs to another certificate");
    }
    createSecureContext(context); // throws before a server has taken half of a bad pair
  } catch (cause) {
    const reason = (cause as Error).message;
    throw new Error(`Cannot use the certificate and its key: ${reason}`, { cause });
  }
  return context;
}

/**
 * Connections before the end of their handshake: the HTTP server knows nothing of them.
 * @internal
 */
export class Handshakes {
  readonly #sockets = new Set<Socket>();

  constructor(server: Server) {
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    server.on("secureConnection", (socket: Socket) => this.#sockets.delete(carrierOf(socket)));
    server.on("tlsClientError", (_: Error, socket: Socket) => socket.destroy());
  }

  closeAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/**
 * The connection that TLS goes over. Node has it, but no word about it in its
 * documentation; the peer's address, which has, is none on a unix socket.
 */
function carrierOf(socket: Socket): Socket {
  return (socket as Socket & { readonly _parent: Socket })._parent;
}
