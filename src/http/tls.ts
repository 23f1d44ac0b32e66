/**
 * HTTPS: the certificate of a server, and the connections that are still shaking hands.
 *
 * Invariant: a certificate and a key that do not match are refused before anything changes. Open
 * connections keep the certificate they began with.
 */
import { constants, createPrivateKey, X509Certificate } from "node:crypto";
import type { Server, ServerOptions } from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import { createSecureContext } from "node:tls";
import { PlantStoreError } from "../core/errors.ts";
import { encodeReply, errorReply } from "./answer.ts";
import { nameRequest, peerOf, publishAnswer } from "./request-message.ts";

/** A certificate and its private key, both as PEM. */
export interface TlsOptions {
  /** The server's certificate, followed by the intermediate ones. */
  readonly cert: string | Buffer;
  /** The private key of that certificate, not encrypted. */
  readonly key: string | Buffer;
}

/**
 * All of TLS 1.3; of TLS 1.2 the ciphers with forward secrecy and authenticated encryption, as in
 * Mozilla's intermediate configuration: recorded traffic stays secret if the key is stolen later.
 */
const CIPHERS =
  "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:" +
  "ECDHE+AESGCM:ECDHE+CHACHA20";

/** It holds the memory of its hello. */
const HANDSHAKE_MS_MAX = 10_000;

/** @throws Error if certificate and key do not match. @internal */
export function createTlsServer(settings: ServerOptions, tls: TlsOptions): Server {
  return https.createServer({
    ...settings,
    ...secureContextOf(tls),
    handshakeTimeout: Math.min(settings.headersTimeout ?? HANDSHAKE_MS_MAX, HANDSHAKE_MS_MAX),
    noDelay: true, // node:http sets these two for plain connections
    allowHalfOpen: true,
  } as https.ServerOptions);
}

/** @throws Error as `createTlsServer`; TypeError if the server has no certificate. @internal */
export function replaceCertificate(server: Server, tls: TlsOptions): void {
  if (!(server instanceof https.Server)) {
    throw new TypeError("Cannot replace the certificate: the server was started without one");
  }
  server.setSecureContext(secureContextOf(tls));
}

function secureContextOf({ cert, key }: TlsOptions) {
  // Older versions of the protocol are broken (RFC 8996), and a second handshake would hold memory.
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
  const context = { cert, key, minVersion: "TLSv1.2", ciphers: CIPHERS, secureOptions } as const;
  try {
    // Node itself takes an empty key or certificate for none.
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
      throw new Error("the key belongs to another certificate");
    }
    createSecureContext(context); // throws before a server takes half of a bad pair
  } catch (cause) {
    const reason = (cause as Error).message;
    throw new Error(`Cannot use the certificate and its key: ${reason}`, { cause });
  }
  return context;
}

/** Keeps the set of connections that are still shaking hands, which the HTTP server does not know. @internal */
export function watchHandshakes(server: Server, sockets: Set<Socket>): void {
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  // Not documented: the connection under TLS, which has no address if it is a unix socket.
  server.on("secureConnection", ({ _parent }: TlsSocket) => sockets.delete(_parent));
  server.on("tlsClientError", ({ code }: NodeJS.ErrnoException, socket: TlsSocket) => {
    if (code === "ERR_SSL_HTTP_REQUEST") answerPlainHttp(socket);
    else socket.destroy();
  });
}

/** @internal */
export interface TlsSocket extends Socket {
  readonly _parent: Socket;
}

/** Answers a client that does not speak TLS, on the connection under it, and closes both. */
function answerPlainHttp(socket: TlsSocket): void {
  const message = "HTTP: expected HTTPS on this port, got plain HTTP; use https://";
  const reply = errorReply(new PlantStoreError("bad_request", message));
  const requestId = nameRequest();
  socket._parent.end(encodeReply(reply, requestId), () => socket.destroy());
  publishAnswer({ ...reply, client: peerOf(socket._parent) }, requestId);
}
