import assert from "node:assert/strict";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { followCertificate, readCertificate } from "../../src/cli/certificate.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { collectWarnings, TIMEOUT } from "../support/watch.ts";

describe("serve with a certificate", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("changed files are taken at once and each minute, and a pair that cannot be used is one warning", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const warnings = collectWarnings(t);
    const [first, second, third] = ["first", "second", "third"].map((name) =>
      makeCertificate(t, name),
    );
    const folder = makeFolder(t);
    const files = { tlsCert: join(folder, "cert.pem"), tlsKey: join(folder, "key.pem") };
    const put = (cert: typeof first, key: typeof first) => {
      copyFileSync(`${cert?.certPath}`, files.tlsCert);
      copyFileSync(`${key?.keyPath}`, files.tlsKey);
    };
    put(first, first);
    const start = readCertificate(files);
    assert.ok(start);
    put(second, second);
    const taken: unknown[] = [];
    const timer = followCertificate(
      { replaceCertificate: ({ cert }) => taken.push(cert) },
      files,
      start,
    );
    assert.deepEqual(taken, [second?.cert], "the files have changed while the store was opened");
    const passMinutes = (count: number) => t.mock.timers.tick(count * 60_000);
    passMinutes(3);
    assert.deepEqual([taken.length, warnings.length], [1, 0]);
    put(third, second);
    passMinutes(3);
    assert.deepEqual([taken.length, warnings.length], [1, 1]);
    rmSync(files.tlsKey);
    passMinutes(3);
    assert.equal(warnings.length, 2);
    assert.match(
      `${warnings[1]?.message}`,
      /^keeping the current certificate: Cannot read --tls-key/,
    );
    put(third, third);
    passMinutes(1);
    assert.deepEqual([taken, warnings.length], [[second?.cert, third?.cert], 2]);
    clearInterval(timer);
  });

  test("a certificate that ends within 14 days is a warning", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const warnings = collectWarnings(t);
    const { certPath: tlsCert, keyPath: tlsKey } = makeCertificate(t, "short", "ec", 20);
    const pair = readCertificate({ tlsCert, tlsKey });
    assert.ok(pair);
    const files = { tlsCert, tlsKey };
    const timer = followCertificate({ replaceCertificate: () => assert.fail() }, files, pair);
    assert.equal(warnings.length, 0);
    t.mock.method(Date, "now", () => pair.expiresAt - 14 * 86_400_000 + 1);
    t.mock.timers.tick(120_000);
    assert.equal(warnings.length, 1);
    assert.match(`${warnings[0]?.message}`, /"\S+" ends on 20[0-9-]{8}: renew it$/);
    clearInterval(timer);
  });

  test("files that are missing or do not fit each other: status 1 and one line", async (t) => {
    const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
    const folder = makeFolder(t);
    writeFileSync(join(folder, "rubbish"), "rubbish");
    const [gone, rubbish] = [join(folder, "gone"), join(folder, "rubbish")];
    const noFile = "no such file or directory (ENOENT)";
    const pairs = [
      [first.certPath, second.keyPath, `expected the key of "${first.certPath}", got another one`],
      [first.certPath, gone, `Cannot read --tls-key "${gone}": ${noFile}`],
      [rubbish, first.keyPath, `--tls-cert "${rubbish}": expected a certificate, in PEM`],
      [first.certPath, rubbish, `"${rubbish}": expected a private key, not encrypted, in PEM`],
    ] as const;
    for (const [cert, key, expected] of pairs) {
      const args = ["--tls-cert", cert, "--tls-key", key, "--port=0", "--data", makeFolder(t)];
      const end = await runCli(["serve", ...args]);
      const [message = "", ...others] = messagesOf(end.stderr);
      assert.deepEqual([end.status, end.stdout, others], [1, "", []]);
      assert.ok(message.includes(expected), message);
    }
  });
});
