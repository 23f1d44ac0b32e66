/**
 * `verify`: reads a log from its first byte to its last and reports.
 *
 * Takes no lock and changes nothing. Beside a running server it stops at the bytes that the server
 * knows to be durable. Lines are judged by the code that a start uses (store/start).
 */
import { LOCK_NAME } from "../core/file-names.ts";
import { readCheckpoint } from "../log/checkpoint.ts";
import { useAndClose } from "../log/folder.ts";
import { locks } from "../log/lock.ts";
import { lostLineJudge } from "../log/mend.ts";
import { type LineFault, LogScan, openLogForReading } from "./start.ts";

export interface VerifyReport {
  /** Lines that hold a plant. */
  readonly records: number;
  /** The bytes of whole lines. */
  readonly bytes: number;
  /** Lines that repeat a plant with the same content: not damage, but a duplicate made by hand. */
  readonly duplicates: number;
  /** Lines that cannot be read, or that have the id of another plant: they need a person. */
  readonly damaged: number;
  /** Lines near the end that lost pages in a power cut; the next start mends them (log/mend). */
  readonly mendable: number;
  /** Bytes after the last line feed: never acknowledged; the next start mends them. */
  readonly tornBytes: number;
  /** `shorter`: the log ends before the checkpoint's length; `none`: no readable checkpoint. */
  readonly checksum: "matches" | "differs" | "shorter" | "none";
  /** The length of the log in the checkpoint. */
  readonly checkpointBytes?: number;
}

export interface VerifyOptions {
  /** Receives every damaged or repeated line as it is found. */
  readonly onFault?: (fault: LineFault) => void;
  /** Receives how much of the log was read, about once a MiB. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

/** Whether a log needs no person: faults that a start mends by itself do not count. */
export function isSound({ damaged, checksum }: VerifyReport): boolean {
  return damaged === 0 && (checksum === "matches" || checksum === "none");
}

/**
 * @throws PlantStoreError `io_error` if there is no log or it cannot be read, `corruption` if only
 * its checkpoint is left, `locked` if the process that holds the directory does not answer.
 */
export async function verifyLog(
  directory: string,
  { onFault, onProgress }: VerifyOptions = {},
): Promise<VerifyReport> {
  return useAndClose(await openLogForReading(directory), async (file) => {
    const checkpoint = await readCheckpoint(file.path);
    const durableBytes = await locks.askDurableBytes(directory, LOCK_NAME);
    const size = durableBytes ?? file.size();
    const counts = { repeat: 0, conflict: 0, unreadable: 0, mendable: 0 };
    const scan = await LogScan.run(file, size, {
      checkpoint,
      isLost: await lostLineJudge(file, size, durableBytes ?? checkpoint?.bytes),
      onFault: (fault) => {
        counts[fault.kind]++;
        onFault?.(fault);
      },
      onProgress,
    });
    return {
      records: scan.end.records,
      bytes: scan.end.bytes,
      duplicates: counts.repeat,
      damaged: counts.unreadable + counts.conflict,
      mendable: counts.mendable,
      tornBytes: size - scan.tail.offset,
      checksum: scan.checksum,
      ...(checkpoint === undefined ? {} : { checkpointBytes: checkpoint.bytes }),
    };
  });
}
