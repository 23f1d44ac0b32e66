/** The certificate of `serve`: two files, read at the start and again whenever they were replaced. */
import { readFileSync } from "node:fs";
import type { TlsOptions } from "../index.ts";

export interface TlsFiles {
  readonly "tls-cert": string | undefined;
  readonly "tls-key": string | undefined;
}

/**
 * What the files hold, or `undefined` where they are not named.
 *
 * @throws Error naming the file that cannot be read.
 */
export function readTlsFiles({
  "tls-cert": cert,
  "tls-key": key,
}: TlsFiles): TlsOptions | undefined {
  if (cert === undefined || key === undefined) return undefined;
  return { cert: read(cert, "certificate"), key: read(key, "private key") };
}

function read(path: string, what: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`Cannot read the ${what}: ${(error as Error).message}`, { cause: error });
  }
}
