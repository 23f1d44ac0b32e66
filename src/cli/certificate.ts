/** The certificate of a server and its key, which follow their two files. */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { publishWarning } from "../core/channels.ts";
import type { PlantServer } from "../index.ts";
import { type OptionValues, UsageError } from "./command.ts";
import type { LISTENER } from "./options.ts";

/** The options that name the files. */
export type CertificateFiles = Pick<OptionValues<typeof LISTENER>, "tlsCert" | "tlsKey">;

/** `undefined` if no files are named. @throws UsageError if only one is; Error that names both. */
export function readCertificate({ tlsCert, tlsKey }: CertificateFiles) {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new UsageError("serve: expected both --tls-cert and --tls-key, got only one of them");
  }
  try {
    const pair = { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) };
    createSecureContext(pair); // throws if they do not belong together
    return { ...pair, expiresAt: Date.parse(new X509Certificate(pair.cert).validTo) };
  } catch (error) {
    const why = (error as Error).message;
    throw new Error(
      `Cannot use --tls-cert "${tlsCert}" with --tls-key "${tlsKey}": ${why}; ` +
        "expected a certificate and its key, not encrypted, both in PEM",
    );
  }
}

const POLL_MS = 60_000;
const WARN_MS = 14 * 86_400_000;

/**
 * Reads the files at once and then once a minute, and gives the server a new pair. If that cannot be used, the
 * current one stays. Warns once of each problem, and of a certificate that ends soon. Returns the timer.
 */
export function followCertificate(
  server: Pick<PlantServer, "replaceCertificate">,
  files: CertificateFiles,
  used: NonNullable<ReturnType<typeof readCertificate>>,
): NodeJS.Timeout {
  let reported: string | undefined;
  const poll = () => {
    let problem: string | undefined;
    try {
      const pair = readCertificate(files) ?? used;
      const isSame = used.cert.equals(pair.cert) && used.key.equals(pair.key);
      if (!isSame) server.replaceCertificate(pair); // clients cannot resume their sessions then
      used = pair;
      const day = new Date(pair.expiresAt).toISOString().slice(0, 10);
      const isEnding = pair.expiresAt - Date.now() < WARN_MS;
      if (isEnding) problem = `the certificate "${files.tlsCert}" ends on ${day}: renew it`;
    } catch (error) {
      problem = `keeping the current certificate: ${(error as Error).message}`;
    }
    if (problem !== undefined && problem !== reported) publishWarning(problem);
    reported = problem;
  };
  poll();
  return setInterval(poll, POLL_MS).unref();
}
