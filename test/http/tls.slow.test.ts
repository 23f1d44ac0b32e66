import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { describe, type TestContext, test } from "node:test";
import tls from "node:tls";
import { promisify } from "node:util";
import { type Certificate, makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { chunked, encodeRequest, resultOf } from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { type Service, type ServiceOptions, startService } from "../support/service.ts";
import { collectMessages, TIMEOUT } from "../support/watch.ts";

interface SecureService extends Service {
  readonly certificate: Certificate;
  connect(ca?: Buffer): Promise<Client>;
}

async function startSecure(t: TestContext, options: ServiceOptions = {}): Promise<SecureService> {
  const certificate = makeCertificate(t, "first");
  const service = await startService(t, { ...options, tls: certificate });
  const connect = (ca = certificate.cert) => Client.connectSecurely(service.port, ca);
  return { ...service, certificate, connect };
}

function create(service: Service, id: number): Buffer {
  return encodeRequest(service, { body: `{"id":${id},"name":"Fern"}` });
}

describe("a server with a certificate", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("sends a refusal that closes after the responses before it, even to a client that reads later", async (t) => {
    const service = await startSecure(t);
    const started = collectMessages(t, "http.server.request.start");
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const ca = service.certificate.cert;
      const socket = tls.connect({ port: service.port, host: "127.0.0.1", ca, maxVersion });
      const headers = { Authorization: undefined, "Transfer-Encoding": "chunked" };
      const refused = encodeRequest(service, { headers, body: chunked("{}") });
      const rest = Buffer.alloc(20 * 1024 * 1024);
      const bytes = Buffer.concat([create(service, 1), refused, create(service, 2), rest]);
      await promisify<Buffer, void>(socket.write).call(socket.pause(), bytes);
      const answers = parseAnswers(Buffer.concat(await socket.toArray()));
      assert.deepEqual(answers.map(resultOf), [200, 40101]);
    }
    assert.equal(started.length, 4, "none of the later requests was read");
  });

  const CIPHERS: Readonly<Record<string, boolean>> = {
    "ECDHE-ECDSA-AES128-GCM-SHA256": true,
    "ECDHE-ECDSA-CHACHA20-POLY1305": true,
    "ECDHE-ECDSA-AES128-SHA256": false,
    "ECDHE-RSA-AES128-SHA": false,
    "AES128-GCM-SHA256": false,
  };

  test("accepts only TLS 1.2 and 1.3, and in 1.2 only ciphers with forward secrecy and AEAD", async (t) => {
    const service = await startSecure(t);
    const connect = async (options: tls.ConnectionOptions) => {
      const ca = service.certificate.cert;
      const socket = tls.connect({ port: service.port, host: "127.0.0.1", ca, ...options });
      t.after(() => socket.destroy());
      socket.on("error", () => {}); // a reset may follow the alert
      await once(socket, "secureConnect");
      return socket;
    };
    // The end of the connection may arrive before the alert with its reason.
    const refused = { code: /ALERT_PROTOCOL_VERSION$|HANDSHAKE_FAILURE$|^ECONNRESET$/ };
    const ciphers = "DEFAULT@SECLEVEL=0"; // or else the client itself refuses old versions
    for (const version of ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"] as const) {
      const socket = connect({ minVersion: version, maxVersion: version, ciphers });
      if (version < "TLSv1.2") await assert.rejects(socket, refused);
      else assert.equal((await socket).getProtocol(), version);
    }
    for (const [cipher, isTaken] of Object.entries(CIPHERS)) {
      const socket = connect({ maxVersion: "TLSv1.2", ciphers: `${cipher}@SECLEVEL=0` });
      if (isTaken) assert.equal((await socket).getCipher().name, cipher);
      else await assert.rejects(socket, refused, cipher);
    }
  });

  test("refuses a second handshake on a connection", async (t) => {
    const service = await startSecure(t);
    const options = {
      port: service.port,
      rejectUnauthorized: false,
      maxVersion: "TLSv1.2",
    } as const;
    const socket = tls.connect(options).on("error", () => {});
    t.after(() => socket.destroy());
    await once(socket, "secureConnect");
    const [error] = await new Promise<[Error | null]>((resolve) => {
      socket.renegotiate({ rejectUnauthorized: false }, (fault) => resolve([fault]));
      socket.once("error", (fault) => resolve([fault]));
    });
    assert.match(String(error), /no renegotiation/i);
  });

  test("closes a handshake that takes longer than the headers may", async (t) => {
    const service = await startSecure(t, { requestTimeoutMs: 50 });
    const socket = net.connect(service.port, "127.0.0.1").resume();
    t.after(() => socket.destroy());
    await once(socket, "close");
  });
});

describe("replaceCertificate()", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("shows new connections the new certificate, and keeps open ones", async (t) => {
    const service = await startSecure(t);
    assert.equal(service.url, `https://127.0.0.1:${service.port}`);
    const old = await service.connect();
    await old.send(create(service, 1));
    assert.equal((await old.next()).status, 200);

    const second = makeCertificate(t, "second");
    service.server.replaceCertificate(second);
    const fresh = await service.connect(second.cert);
    assert.deepEqual([old.peerName, fresh.peerName], ["first", "second"]);
    for (const client of [old, fresh]) {
      await client.send(create(service, 2));
      assert.equal((await client.next()).status, 200);
      client.destroy();
    }
    await assert.rejects(service.connect(), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
  });

  test("refuses a pair that does not belong together, and keeps the current one", async (t) => {
    const service = await startSecure(t);
    const { cert, key } = makeCertificate(t, "second");
    for (const bad of [
      { cert: service.certificate.cert, key },
      { cert: "rubbish", key },
      { cert, key: "" },
    ]) {
      assert.throws(() => service.server.replaceCertificate(bad), Error);
      await assert.rejects(startService(t, { tls: bad }), Error);
    }
    const client = await service.connect();
    assert.equal(client.peerName, "first");
    client.destroy();
  });

  test("is a TypeError for a server with plain HTTP", async (t) => {
    const { server } = await startService(t);
    assert.throws(() => server.replaceCertificate(makeCertificate(t, "first")), TypeError);
  });
});
