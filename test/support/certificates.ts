/** Certificates made by openssl, as an operator makes them. */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { makeFolder } from "./folders.ts";

export type Certificate = ReturnType<typeof makeCertificate>;

/** Options that skip a test if there is no openssl. */
export const NEEDS_OPENSSL =
  spawnSync("openssl", ["version"]).status === 0 ? {} : { skip: "needs openssl, not found here" };

/** Makes a self-signed certificate for 127.0.0.1 with this common name, in files of its own. */
export function makeCertificate(t: TestContext, name: string, days = 30) {
  const folder = makeFolder(t);
  const [certPath, keyPath] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-days", `${days}`, "-keyout", keyPath, "-out", certPath];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const words = ["req", "-x509", ...key, "-nodes", ...subject, ...files];
  execFileSync("openssl", words, { stdio: "ignore" });
  return { name, certPath, keyPath, cert: readFileSync(certPath), key: readFileSync(keyPath) };
}
