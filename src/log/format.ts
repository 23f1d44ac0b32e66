/**
 * One record, one line: the text of the record and a line feed.
 *
 * A record never holds a line feed of its own. Lines of white space are not
 * records: the start blanks out a damaged batch with them, and an editor may
 * leave them behind. What the text of a record means is not known here.
 */

/** @internal */
export const LINE_FEED = 0x0a;

/**
 * The longest line, its line feed counted: nothing longer is written, or read as a torn one.
 * @internal
 */
export const RECORD_BYTES_MAX = 64 * 1024 * 1024;

/** Where a line stands, for messages to people and for the index. */
export interface LinePosition {
  /** Bytes before the line in its file. */
  readonly offset: number;
  /** Counted from 1, as an editor shows it. */
  readonly line: number;
}

/**
 * @throws RangeError when the record would break the line: a mistake of the calling program.
 * @internal
 */
export function encodeLine(record: string): string {
  assertOneLine(record);
  return `${record}\n`;
}

/**
 * How many bytes the line of a record has, its line feed counted.
 *
 * @throws RangeError like `encodeLine`.
 * @internal
 */
export function lineBytes(record: string): number {
  assertOneLine(record);
  return Buffer.byteLength(record) + 1;
}

function assertOneLine(record: string): void {
  if (record.includes("\n")) throw new RangeError("A record must not hold a line feed");
}

/** Whether a line (without its line feed) holds no record. @internal */
export function isBlank(line: Buffer): boolean {
  for (const byte of line) {
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * How many bytes of a byte order mark stand where a log starts: some editors leave one there.
 * @internal
 */
export function markLength(logStart: Buffer): number {
  return logStart.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)
    ? BYTE_ORDER_MARK.length
    : 0;
}
