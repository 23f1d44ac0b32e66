import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { describe, type TestContext, test } from "node:test";
import tls from "node:tls";
import { promisify } from "node:util";
import { type Certificate, makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { assertCommonHeaders, assertError, chunked, encodeRequest } from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { type Service, type ServiceOptions, startService } from "../support/service.ts";
import { collectMessages, TIMEOUT } from "../support/watch.ts";

/** So long that a test which waits for one of these limits fails by its own timeout. */
const PATIENT = {
  requestTimeoutMs: 600_000,
  keepAliveTimeoutMs: 600_000,
};

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
  test("serves HTTPS, and its URL begins with https", async (t) => {
    const service = await startSecure(t, { basePath: "/garden" });
    assert.equal(service.url, `https://127.0.0.1:${service.port}/garden`);
    const client = await service.connect();
    const body = '{"id":1,"name":"Fern"}';
    await client.send(encodeRequest(service, { target: "/garden/plants", body }));
    const answer = await client.next();
    assert.deepEqual([answer.status, answer.text], [200, '{"name":"Fern"}']);
    assertCommonHeaders(answer);
    assert.deepEqual(service.logLines(), [body]);
    client.destroy();
  });

  test("answers requests before a refusal that closes, and ignores those after it", async (t) => {
    const service = await startSecure(t);
    const started = collectMessages(t, "http.server.request.start");
    const client = await service.connect();
    const headers = { Authorization: undefined, "Transfer-Encoding": "chunked" };
    const refused = encodeRequest(service, { headers, body: chunked("{}") });
    const later = Array.from({ length: 2000 }, () => create(service, 2));
    await client.send(Buffer.concat([create(service, 1), refused, ...later]));
    assert.deepEqual(
      (await client.rest()).map(({ status }) => status),
      [200, 401],
    );
    assert.equal(started.length, 2); // none of the later requests was judged
    client.destroy();
  });

  test("answers a client that sends a whole refused request before it reads", async (t) => {
    const service = await startSecure(t);
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const ca = service.certificate.cert;
      const socket = tls.connect({ port: service.port, host: "127.0.0.1", ca, maxVersion });
      const body = Buffer.alloc(20 * 1024 * 1024);
      const head = encodeRequest(service, { headers: { "Content-Length": String(body.length) } });
      await promisify<Buffer, void>(socket.write).call(socket.pause(), Buffer.concat([head, body]));
      const [answer] = parseAnswers(Buffer.concat(await socket.toArray()));
      assert.ok(answer !== undefined);
      assertError(answer, 41301);
    }
  });

  test("refuses TLS 1.1 and older, and accepts TLS 1.2 and 1.3", async (t) => {
    const service = await startSecure(t);
    const connectBy = async (version: tls.SecureVersion) => {
      const versions = { minVersion: version, maxVersion: version };
      const socket = tls.connect({
        ...versions,
        port: service.port,
        host: "127.0.0.1",
        ca: service.certificate.cert,
        ciphers: "DEFAULT@SECLEVEL=0", // or else the client itself refuses old versions
      });
      t.after(() => socket.destroy());
      socket.on("error", () => {}); // a reset may follow the alert
      await once(socket, "secureConnect");
      return socket.getProtocol();
    };
    // The end of the connection may arrive before the alert with its reason.
    const refused = { code: /ALERT_PROTOCOL_VERSION$|^ECONNRESET$/ };
    await assert.rejects(connectBy("TLSv1"), refused);
    await assert.rejects(connectBy("TLSv1.1"), refused);
    assert.deepEqual(
      [await connectBy("TLSv1.2"), await connectBy("TLSv1.3")],
      ["TLSv1.2", "TLSv1.3"],
    );
  });

  const CIPHERS: readonly [cipher: string, isTaken: boolean][] = [
    ["ECDHE-ECDSA-AES128-GCM-SHA256", true],
    ["ECDHE-ECDSA-AES256-GCM-SHA384", true],
    ["ECDHE-ECDSA-CHACHA20-POLY1305", true],
    ["ECDHE-ECDSA-AES128-SHA256", false],
    ["ECDHE-ECDSA-AES128-SHA", false],
    ["ECDHE-RSA-AES128-SHA", false],
    ["AES128-GCM-SHA256", false],
    ["AES128-SHA", false],
  ];

  test("accepts only ciphers of TLS 1.2 with forward secrecy and AEAD, also after a reload", async (t) => {
    const service = await startSecure(t);
    // With RSA keys, too, because some ciphers need them.
    for (const kind of ["ec", "rsa"] as const) {
      const { cert, key } = makeCertificate(t, kind, kind);
      service.server.replaceCertificate({ cert, key });
      for (const [cipher, isTaken] of CIPHERS) {
        const name = kind === "rsa" ? cipher.replace("ECDSA", "RSA") : cipher;
        const options = { maxVersion: "TLSv1.2", ciphers: `${name}@SECLEVEL=0`, ca: cert } as const;
        const socket = tls.connect({ ...options, port: service.port, host: "127.0.0.1" });
        t.after(() => socket.destroy());
        const used = once(socket, "secureConnect").then(() => socket.getCipher().name);
        if (isTaken) assert.equal(await used, name);
        else await assert.rejects(used, { code: /HANDSHAKE_FAILURE$|^ECONNRESET$/ }, name);
        socket.on("error", () => {});
      }
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

  test("closes without waiting for idle, silent or half-open connections, or half a head", async (t) => {
    const service = await startSecure(t, PATIENT);
    const idle = await service.connect();
    await idle.send(create(service, 1));
    assert.equal((await idle.next()).status, 200);
    const silent = await service.connect();
    const half = await service.connect();
    await half.send(create(service, 1).subarray(0, 40));
    const shaking = net.connect(service.port, "127.0.0.1").resume();
    await once(shaking, "connect");
    // After an answer on a later connection the server has seen the other ones.
    const last = await service.connect();
    await last.send(create(service, 1));
    await last.next();
    await service.server.close(600_000);
    for (const client of [idle, silent, half, last]) assert.deepEqual(await client.rest(), []);
    if (!shaking.closed) await once(shaking, "close");
  });
});

describe("replaceCertificate()", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("shows new connections the new certificate, and keeps open ones", async (t) => {
    const service = await startSecure(t);
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

  const BAD: readonly [fault: string, pair: (a: Certificate, b: Certificate) => object][] = [
    ["another's key", (a, b) => ({ cert: a.cert, key: b.key })],
    ["no certificate at all", (_, b) => ({ cert: "rubbish", key: b.key })],
    ["an empty key", (_, b) => ({ cert: b.cert, key: "" })],
  ];
  for (const [fault, pair] of BAD) {
    test(`refuses ${fault}, and keeps the current pair`, async (t) => {
      const service = await startSecure(t);
      const other = makeCertificate(t, "second");
      const bad = pair(service.certificate, other) as Certificate;
      assert.throws(() => service.server.replaceCertificate(bad), Error);
      const client = await service.connect();
      assert.equal(client.peerName, "first");
      client.destroy();
      await assert.rejects(startService(t, { tls: bad }), Error);
    });
  }

  test("is a TypeError for a server with plain HTTP", async (t) => {
    const { server } = await startService(t);
    assert.throws(() => server.replaceCertificate(makeCertificate(t, "first")), TypeError);
  });
});
