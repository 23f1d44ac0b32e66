import assert from "node:assert/strict";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { followCertificate, readCertificate } from "../../src/cli/certificate.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { messagesOf, runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { collectWarnings, TIMEOUT } from "../support/watch.ts";

describe("serve with a certificate", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("the files are read each minute; a pair that cannot be used, or ends soon, is one warning", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const warnings = collectWarnings(t);
    const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
    const short = makeCertificate(t, "short", 13);
    const folder = makeFolder(t);
    const files = { tlsCert: join(folder, "cert.pem"), tlsKey: join(folder, "key.pem") };
    const put = (cert: typeof first, key: typeof first) => {
      copyFileSync(cert.certPath, files.tlsCert);
      copyFileSync(key.keyPath, files.tlsKey);
    };
    put(first, first);
    const taken: unknown[] = [first.cert];
    const server = { replaceCertificate: ({ cert }: { cert: unknown }) => taken.push(cert) };
    const pair = readCertificate(files);
    assert.ok(pair);
    const timer = followCertificate(server, files, pair);
    const steps: readonly [change: () => void, used: typeof first, warnings: number][] = [
      [() => {}, first, 0],
      [() => put(second, first), first, 1],
      [() => rmSync(files.tlsKey), first, 2],
      [() => put(second, second), second, 2],
      [() => put(short, short), short, 3],
    ];
    for (const [change, used, count] of steps) {
      change();
      t.mock.timers.tick(180_000);
      assert.deepEqual([taken.at(-1), warnings.length], [used.cert, count]);
    }
    assert.equal(taken.length, 3, "what has not changed is not replaced");
    assert.match(`${warnings[1]?.message}`, /^keeping the current certificate: .*key\.pem/);
    assert.match(`${warnings[2]?.message}`, /"\S+" ends on 20[0-9-]{8}: renew it$/);
    clearInterval(timer);
  });

  test("files that are missing or do not fit each other: status 1, and one line that names both", async (t) => {
    const [first, second] = [makeCertificate(t, "first"), makeCertificate(t, "second")];
    const [gone, rubbish] = ["gone", "rubbish"].map((name) => join(makeFolder(t), name));
    writeFileSync(`${rubbish}`, "rubbish");
    for (const [cert, key] of [
      [first.certPath, second.keyPath],
      [first.certPath, gone],
      [rubbish, first.keyPath],
      [first.certPath, rubbish],
    ]) {
      const args = ["--tls-cert", `${cert}`, "--tls-key", `${key}`, "--port=0"];
      const end = await runCli(["serve", ...args, "--data", makeFolder(t)]);
      const [message = "", ...others] = messagesOf(end.stderr);
      assert.deepEqual([end.status, end.stdout, others], [1, "", []]);
      assert.ok(message.startsWith(`Cannot use --tls-cert "${cert}" with --tls-key "${key}": `));
    }
  });
});
