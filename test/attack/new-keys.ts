/**
 * A TLS 1.3 client that changes its keys again and again, and asks the server to do the same. OpenSSL offers no way to send
 * many of these messages at once, so they are encrypted here (RFC 8446: 4.6.3, 5.2 and 7.2).
 */
import { createCipheriv, createHmac } from "node:crypto";
import type net from "node:net";
import tls from "node:tls";

const CIPHER = "TLS_AES_128_GCM_SHA256";
const PACKET_MESSAGES = 2000;
/** KeyUpdate with update_requested, and the type of its record. */
const MESSAGE = Buffer.from([24, 0, 0, 1, 1, 22]);
const RECORD_BYTES = MESSAGE.length + 16;
const HEAD = Buffer.from([23, 3, 3, 0, RECORD_BYTES]);

/** HKDF-Expand-Label without a context, for at most one block. */
function expand(secret: Buffer, label: string, bytes: number): Buffer {
  const name = Buffer.from(`tls13 ${label}`);
  const info = Buffer.concat([Buffer.from([0, bytes, name.length]), name, Buffer.from([0, 1])]);
  return createHmac("sha256", secret).update(info).digest().subarray(0, bytes);
}

/** The first record under a secret. */
function keyUpdate(secret: Buffer): Buffer {
  const cipher = createCipheriv("aes-128-gcm", expand(secret, "key", 16), expand(secret, "iv", 12));
  cipher.setAAD(HEAD);
  return Buffer.concat([HEAD, cipher.update(MESSAGE), cipher.final(), cipher.getAuthTag()]);
}

/** Makes the handshake on a connection, then sends such messages until it closes. */
export function changeKeys(socket: net.Socket): void {
  let secret: Buffer = Buffer.alloc(0);
  const client = tls.connect({ socket, rejectUnauthorized: false, ciphers: CIPHER });
  client.on("error", () => {});
  client.on("keylog", (line) => {
    const [label, , text = ""] = String(line).trim().split(" ");
    if (label === "CLIENT_TRAFFIC_SECRET_0") secret = Buffer.from(text, "hex");
  });
  client.once("secureConnect", () => {
    const sendMore = () => {
      const records: Buffer[] = [];
      for (let count = 0; count < PACKET_MESSAGES; count++) {
        records.push(keyUpdate(secret));
        secret = expand(secret, "traffic upd", 32);
      }
      if (!socket.destroyed) socket.write(Buffer.concat(records), () => setImmediate(sendMore));
    };
    sendMore();
  });
}
