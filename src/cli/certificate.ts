/** The certificate of a server and its key, which follow their two files. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { publishWarning } from "../core/channels.ts";
import type { PlantServer } from "../index.ts";
import { ioError } from "../log/disk.ts";
import { UsageError } from "./command.ts";

/** The options that name the files. */
export interface CertificateFiles {
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
}

type Pair = ReturnType<typeof readPair>;

/** `undefined` if no files are named. @throws UsageError if one is missing; Error that names the wrong one. */
export function readCertificate({ tlsCert, tlsKey }: CertificateFiles): Pair | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert !== undefined && tlsKey !== undefined) return readPair(tlsCert, tlsKey);
  const [given, missing] = tlsCert === undefined ? ["key", "cert"] : ["cert", "key"];
  throw new UsageError(`serve: expected --tls-${missing} with --tls-${given}`);
}

function readPair(certFile: string, keyFile: string) {
  const readCert = (pem: Buffer) => new X509Certificate(pem);
  const [cert, certificate] = readPem("--tls-cert", certFile, "a certificate", readCert);
  const secret = "a private key, not encrypted";
  const [key, privateKey] = readPem("--tls-key", keyFile, secret, createPrivateKey);
  const expiresAt = Date.parse(certificate.validTo);
  if (certificate.checkPrivateKey(privateKey)) return { cert, key, expiresAt };
  throw new Error(`--tls-key "${keyFile}": expected the key of "${certFile}", got another one`);
}

/** The bytes of a file, and what they are. */
function readPem<T>(
  option: string,
  file: string,
  expected: string,
  parse: (pem: Buffer) => T,
): [Buffer, T] {
  let pem: Buffer | undefined;
  try {
    pem = readFileSync(file);
    return [pem, parse(pem)];
  } catch (cause) {
    if (pem === undefined) throw ioError(`Cannot read ${option} "${file}"`, cause);
    throw new Error(`${option} "${file}": expected ${expected}, in PEM`);
  }
}

const POLL_MS = 60_000;
const WARN_MS = 14 * 86_400_000;

/**
 * Gives changed files to the server, at once and then once a minute. If they cannot be used, the current pair
 * stays. Warns once of each fault, and of a certificate that ends soon. Returns the timer.
 */
export function followCertificate(
  server: Pick<PlantServer, "replaceCertificate">,
  files: CertificateFiles,
  first: Pair,
): NodeJS.Timeout {
  let current = first;
  let reported: string | undefined;
  const poll = () => {
    let fault: string | undefined;
    try {
      const next = readCertificate(files) ?? current;
      if (!next.cert.equals(current.cert) || !next.key.equals(current.key)) {
        server.replaceCertificate(next);
        current = next;
      }
      const day = new Date(current.expiresAt).toISOString().slice(0, 10);
      const isEnding = current.expiresAt - Date.now() < WARN_MS;
      if (isEnding) fault = `the certificate "${files.tlsCert}" ends on ${day}: renew it`;
    } catch (error) {
      fault = `keeping the current certificate: ${(error as Error).message}`;
    }
    if (fault !== undefined && fault !== reported) publishWarning(fault);
    reported = fault;
  };
  poll(); // the files may have changed while the store was opened
  return setInterval(poll, POLL_MS).unref();
}
