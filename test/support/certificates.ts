/** Certificates made by openssl, as an operator makes them. */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { makeFolder } from "./folders.ts";

export interface Certificate {
  /** The common name in the certificate. */
  readonly name: string;
  readonly certPath: string;
  readonly keyPath: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Options that skip a test if there is no openssl. */
export const NEEDS_OPENSSL =
  spawnSync("openssl", ["version"]).status === 0 ? {} : { skip: "needs openssl, not found here" };

const KEYS = {
  ec: ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
  rsa: ["-newkey", "rsa:2048"],
} as const;

/** Makes a self-signed certificate for 127.0.0.1, in files of its own. */
export function makeCertificate(
  t: TestContext,
  name: string,
  key: keyof typeof KEYS = "ec",
  days = 30,
): Certificate {
  const folder = makeFolder(t);
  const certPath = join(folder, "cert.pem");
  const keyPath = join(folder, "key.pem");
  const kind = [...KEYS[key], "-nodes"];
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-days", `${days}`, "-keyout", keyPath, "-out", certPath];
  execFileSync("openssl", ["req", "-x509", ...kind, ...subject, ...files], { stdio: "ignore" });
  return { name, certPath, keyPath, cert: readFileSync(certPath), key: readFileSync(keyPath) };
}
