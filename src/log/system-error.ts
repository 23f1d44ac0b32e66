/** Errors of the operating system, in words for the operator. */
import os from "node:os";
import { PlantStoreError } from "../core/errors.ts";

/** An `io_error`: the action that failed, and in words why. */
export function ioError(action: string, cause: unknown): PlantStoreError {
  return new PlantStoreError("io_error", `${action}: ${describeSystemError(cause)}`, { cause });
}

/** Turns what the work rejects with into an `io_error`, unless it is a `PlantStoreError`. */
export async function orIoError<T>(action: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw cause instanceof PlantStoreError ? cause : ioError(action, cause);
  }
}

/** The code of the system error (`ENOENT`), if it is one. */
export function systemCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}

/** "no space left on device (ENOSPC)" rather than Node's line with call and path. */
export function describeSystemError(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { code, errno } = cause as NodeJS.ErrnoException;
  if (errno === -EDQUOT) return "disk quota exceeded (EDQUOT)";
  // Node's own calls say "CODE: words, call"; its sockets "call CODE: words path".
  const words = /^(?:\w+ )?[A-Z0-9]+: ([^,/]*?)(?:,| \/|$)/.exec(cause.message)?.[1];
  return code !== undefined && words !== undefined ? `${words} (${code})` : cause.message;
}

const { EDQUOT, EFBIG, ENOSPC } = os.constants.errno;

/** Whether the system had no room. By number: libuv has no name for EDQUOT. */
export function isRefusal(cause: unknown): boolean {
  const errno = (cause as NodeJS.ErrnoException | undefined)?.errno;
  return errno === -ENOSPC || errno === -EDQUOT || errno === -EFBIG;
}
