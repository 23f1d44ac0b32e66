/** The certificate of `serve`: two files, read at the start and again whenever they were replaced. */
import { readFileSync } from "node:fs";
import type { TlsOptions } from "../index.ts";
import { UsageError } from "./command.ts";

export interface TlsFiles {
  readonly "tls-cert": string | undefined;
  readonly "tls-key": string | undefined;
}

/**
 * What the files hold, or `undefined` where neither is named.
 *
 * @throws UsageError where one is named without the other; Error naming the
 * file that cannot be read.
 */
export function readTlsFiles({
  "tls-cert": cert,
  "tls-key": key,
}: TlsFiles): TlsOptions | undefined {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const given = cert === undefined ? "--tls-key" : "--tls-cert";
    throw new UsageError(`serve: expected both --tls-cert and --tls-key or neither, got ${given}`);
  }
  return { cert: read(cert, "certificate"), key: read(key, "private key") };
}

function read(path: string, what: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`Cannot read the ${what}: ${(error as Error).message}`);
  }
}
