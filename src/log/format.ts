/**
 * One record, one line: the text of the record, without line feeds, and a line feed.
 *
 * Lines of white space are not records: a start overwrites a damaged batch with them, and an editor
 * may leave them.
 */

/** @internal */
export const LINE_FEED = 0x0a;

/** The place of a line in its file. */
export interface LinePosition {
  /** Bytes before the line. */
  readonly offset: number;
  /** The line's number, from 1. */
  readonly line: number;
}

/**
 * The length in bytes of the line of a record, with its line feed.
 *
 * @throws RangeError if the record holds a line feed: a mistake of the calling program.
 * @internal
 */
export function lineBytes(record: string): number {
  if (record.includes("\n")) throw new RangeError("A record must not hold a line feed");
  return Buffer.byteLength(record) + 1;
}

/** Whether a line (without its line feed) is white space. @internal */
export function isBlank(line: Buffer): boolean {
  for (const byte of line) {
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** The length of the byte order mark that some editors put at the start of a log; 0 for none. @internal */
export function markLength(logStart: Buffer): number {
  const hasMark = logStart.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return hasMark ? BYTE_ORDER_MARK.length : 0;
}
