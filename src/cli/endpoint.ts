/** What a server listens on: an address, and a certificate that follows its two files. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { publishWarning } from "../core/channels.ts";
import { formatHostPort } from "../core/text.ts";
import type { PlantServer, TlsOptions } from "../index.ts";
import { report } from "./output.ts";

/**
 * Describes why a server cannot listen, and what to do. Returns any other error as it is.
 *
 * @param option the options that set the address.
 */
export function describeListenError(
  error: NodeJS.ErrnoException,
  address: { readonly host: string; readonly port: number },
  option: string,
): Error {
  if (error.syscall === undefined) return error;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: "it is in use; choose another with",
    EADDRNOTAVAIL: "this machine has no such address; choose another with",
    EACCES: "permission denied; choose a port from 1024 up with",
  };
  const reason = reasons[error.code ?? ""] ?? `${error.message}; see`;
  return new Error(
    `Cannot listen on ${formatHostPort(address.host, address.port)}: ${reason} ${option}`,
  );
}

const POLL_MS = 60_000;
const WARN_MS = 14 * 86_400_000;

/**
 * The certificate of a server. Reads its files once a minute, and uses them if they have changed. If they
 * cannot be used, the pair in use stays, and each fault is reported once while it lasts.
 */
export class Certificate {
  readonly #certFile: string;
  readonly #keyFile: string;
  #timer: NodeJS.Timeout | undefined;
  #reported: readonly string[] = [];
  /** In use. */
  tls: TlsOptions & { readonly cert: Buffer; readonly key: Buffer };

  /** @throws Error naming the file that cannot be read, or is no certificate or key; also if they do not match. */
  constructor(certFile: string, keyFile: string) {
    this.#certFile = certFile;
    this.#keyFile = keyFile;
    this.tls = this.#read();
  }

  /** `undefined` if no files are named. @throws like the constructor. */
  static open(tlsCert: string | undefined, tlsKey: string | undefined): Certificate | undefined {
    return tlsCert && tlsKey ? new Certificate(tlsCert, tlsKey) : undefined;
  }

  /** Gives changed files to this server from now on. Keeps no process alive. */
  follow(server: Pick<PlantServer, "replaceCertificate">): void {
    this.#poll(server); // the files may have changed while the store was opened
    this.#timer = setInterval(() => this.#poll(server), POLL_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #poll(server: Pick<PlantServer, "replaceCertificate">): void {
    const faults = [this.#update(server), this.#findExpiryFault()].filter(
      (fault) => fault !== undefined,
    );
    for (const fault of faults) {
      if (!this.#reported.includes(fault)) publishWarning(fault);
    }
    this.#reported = faults;
  }

  #update(server: Pick<PlantServer, "replaceCertificate">): string | undefined {
    try {
      const tls = this.#read();
      if (tls.cert.equals(this.tls.cert) && tls.key.equals(this.tls.key)) return undefined;
      server.replaceCertificate(tls);
      this.tls = tls;
      report({ level: "info", event: "reloaded", message: "read the certificate again" });
      return undefined;
    } catch (error) {
      return `keeping the certificate that is in use: ${(error as Error).message}`;
    }
  }

  #findExpiryFault(): string | undefined {
    const { validTo } = new X509Certificate(this.tls.cert);
    const leftMs = Date.parse(validTo) - Date.now();
    const ends = `the certificate "${this.#certFile}" ${leftMs > 0 ? "ends" : "has expired"}`;
    return leftMs <= WARN_MS ? `${ends} on ${validTo}: renew it` : undefined;
  }

  #read() {
    const tls = {
      cert: readPem(
        "--tls-cert",
        this.#certFile,
        "a certificate",
        (pem) => new X509Certificate(pem),
      ),
      key: readPem(
        "--tls-key",
        this.#keyFile,
        "a private key that is not encrypted",
        createPrivateKey,
      ),
    };
    if (!new X509Certificate(tls.cert).checkPrivateKey(createPrivateKey(tls.key))) {
      throw new Error("The key of --tls-key belongs to another certificate");
    }
    return tls;
  }
}

function readPem(
  option: string,
  file: string,
  expected: string,
  parse: (pem: Buffer) => unknown,
): Buffer {
  let fault = "";
  try {
    const pem = readFileSync(file);
    fault = `expected ${expected}, as PEM: `;
    parse(pem);
    return pem;
  } catch (cause) {
    throw new Error(`Cannot read ${option} "${file}": ${fault}${(cause as Error).message}`, {
      cause,
    });
  }
}
