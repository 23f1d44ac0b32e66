import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { createSecureContext } from "node:tls";
import { Certificate } from "../../src/cli/endpoint.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { collectWarnings, TIMEOUT } from "../support/watch.ts";

/** Two certificates, and copies of the first and its key, which a test replaces. */
function makeReplaceablePair(t: TestContext) {
  const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
  const files = makeFolder(t);
  const [cert, key] = [join(files, "cert.pem"), join(files, "key.pem")];
  copyFileSync(first.certPath, cert);
  copyFileSync(first.keyPath, key);
  return { first, second, files, cert, key };
}

describe("serve with a certificate", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("changed files are taken within a minute, and a pair that cannot be used is one warning", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const warnings = collectWarnings(t);
    const { first, second, cert, key } = makeReplaceablePair(t);
    const certificate = new Certificate(cert, key);
    const taken: unknown[] = [];
    certificate.follow({
      replaceCertificate: (tls) => {
        createSecureContext(tls); // throws if they do not fit
        taken.push(tls.cert);
      },
    });
    const passMinute = () => t.mock.timers.tick(60_000);
    passMinute();
    assert.deepEqual([taken, warnings.length], [[], 0]);

    copyFileSync(second.certPath, cert); // with the key of the first
    for (let n = 0; n < 3; n++) passMinute();
    assert.deepEqual([taken, warnings.length], [[], 1]);
    rmSync(key);
    for (let n = 0; n < 3; n++) passMinute();
    assert.deepEqual([taken, warnings.length], [[], 2]);
    assert.ok(warnings[1]?.message.includes(`--tls-key "${key}"`), warnings[1]?.message);
    assert.deepEqual(certificate.tls.cert, first.cert);

    copyFileSync(second.keyPath, key);
    passMinute();
    passMinute();
    assert.deepEqual([taken, warnings.length], [[second.cert], 2]);
    certificate.stop();
  });

  test("files that change before the server listens are taken once it does", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const { second, cert, key } = makeReplaceablePair(t);
    const certificate = new Certificate(cert, key);
    copyFileSync(second.certPath, cert);
    copyFileSync(second.keyPath, key);
    const taken: unknown[] = [];
    certificate.follow({ replaceCertificate: (tls) => void taken.push(tls.cert) });
    assert.deepEqual(taken, [second.cert]);
    certificate.stop();
  });

  test("a certificate that ends within 14 days or has ended is a warning", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const warnings = collectWarnings(t);
    const { certPath, keyPath } = makeCertificate(t, "short", "ec", 20);
    const certificate = new Certificate(certPath, keyPath);
    const expiresAt = Date.parse(new X509Certificate(certificate.tls.cert).validTo);
    certificate.follow({ replaceCertificate: () => {} });
    assert.equal(warnings.length, 0);
    const day = 86_400_000;
    for (const [left, count, message] of [
      [14.1 * day, 0, ""],
      [13.9 * day, 1, "ends on"],
      [1000, 1, "ends on"],
      [-1000, 2, "has expired on"],
    ] as const) {
      t.mock.method(Date, "now", () => expiresAt - left);
      t.mock.timers.tick(60_000);
      assert.equal(warnings.length, count, `${left}`);
      assert.ok(warnings.length === 0 || warnings.at(-1)?.message.includes(message));
    }
    certificate.stop();
  });

  test("files that are missing or do not fit each other: status 1 and one line", async (t) => {
    const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
    const files = makeFolder(t);
    writeFileSync(join(files, "rubbish"), "rubbish");
    const [gone, rubbish] = [join(files, "gone"), join(files, "rubbish")];
    const pairs = [
      [first.certPath, second.keyPath, "another certificate"],
      [first.certPath, gone, `--tls-key "${gone}"`],
      [rubbish, first.keyPath, `--tls-cert "${rubbish}"`],
      [first.certPath, rubbish, `--tls-key "${rubbish}"`],
      [first.keyPath, first.certPath, `--tls-cert "${first.keyPath}"`],
    ] as const;
    for (const [cert, key, named] of pairs) {
      const args = ["--tls-cert", cert, "--tls-key", key, "--port=0", "--data", makeFolder(t)];
      const end = await runCli(["serve", ...args]);
      const messages = messagesOf(end.stderr);
      assert.deepEqual([end.status, end.stdout, messages.length], [1, "", 1]);
      assert.ok(messages[0]?.includes(named), messages[0]);
    }
  });
});

test("a certificate without its key, or a key without its certificate: status 2", async (t) => {
  for (const [given, missing] of [
    ["--tls-cert", "--tls-key"],
    ["--tls-key", "--tls-cert"],
  ] as const) {
    const end = await runCli(["serve", "--port=0", given, "x.pem"], { cwd: makeFolder(t) });
    assert.equal(end.status, 2);
    assert.ok(end.stderr.includes(given) && end.stderr.includes(missing), end.stderr);
  }
});
