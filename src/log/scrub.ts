/**
 * Reads a log again, in the background, to see whether it still holds the
 * bytes it was known to hold.
 *
 * A start that read all of it has no need for this. What is found is the
 * caller's to act on.
 */
import { crc32 } from "node:zlib";
import type { Checkpoint } from "./checkpoint.ts";
import type { LogFile } from "./file.ts";
import { Pace } from "./pace.ts";

/** A quarter of a millisecond of the event loop; smaller ones cost more in wake-ups than in reading. */
const CHUNK_BYTES = 512 * 1024;
/**
 * Of the time, as far as it is seen here. With wake-ups and the thread that reads
 * it is 4 to 5 % of one processor, at 30 MB a second.
 */
const SHARE = 0.03;

/**
 * Whether the first bytes of a log are the known ones. Reads in pieces, with
 * rests between them, and keeps no process alive.
 *
 * @param share of the time that it may take, up to 1.
 * @throws PlantStoreError `io_error`; something else once the signal is aborted.
 */
export async function scrub(
  file: LogFile,
  known: Checkpoint,
  signal: AbortSignal,
  share = SHARE,
): Promise<boolean> {
  const pace = new Pace(share, signal);
  const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, known.bytes));
  let sum = 0;
  for (let position = 0; position < known.bytes; position += chunk.length) {
    await pace.rest();
    const wanted = chunk.subarray(0, known.bytes - position);
    const got = await file.read(wanted, position);
    signal.throwIfAborted(); // the file may be closed by now
    if (got < wanted.length) return false;
    sum = crc32(wanted, sum);
  }
  return sum === known.crc32;
}
