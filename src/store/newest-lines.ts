/**
 * The newest lines of a log in memory: most repeats and reads are of new plants, and reading the disk takes longer
 * than everything else. The lines are durable, and bytes of a log never change, so none grows stale.
 */
import { LINE_FEED } from "../log/lines.ts";
import { defaultBudget } from "../memory.ts";

const PIECE_BYTES = 64 * 1024;

export class NewestLines {
  /** Pieces of the log by their numbers: 0 begins at offset 0. What was not added is zero. */
  readonly #pieces = new Map<number, Buffer>();
  readonly #piecesMax: number;

  /** @param bytesMax about how much of the log is kept. */
  constructor(bytesMax = defaultBudget()) {
    this.#piecesMax = Math.ceil(bytesMax / PIECE_BYTES);
  }

  /** @param start where in the log the bytes begin. */
  add(bytes: Buffer, start: number): void {
    try {
      for (let done = 0; done < bytes.length; ) {
        const at = start + done;
        const number = Math.floor(at / PIECE_BYTES);
        const piece = this.#pieces.get(number) ?? Buffer.alloc(PIECE_BYTES);
        this.#pieces.set(number, piece).delete(number - this.#piecesMax);
        done += bytes.copy(piece, at % PIECE_BYTES, done);
      }
    } catch {
      this.#pieces.clear(); // no memory for a piece: all lines are on disk
    }
  }

  /** The line at an offset of the log; `undefined` if it is not here, or lies in two pieces. */
  lineAt(offset: number): Buffer | undefined {
    const at = offset % PIECE_BYTES;
    const piece = this.#pieces.get(Math.floor(offset / PIECE_BYTES));
    const end = piece?.indexOf(LINE_FEED, at) ?? -1;
    if (piece === undefined || end < 0 || piece[at] === 0) return undefined;
    return Buffer.from(piece.subarray(at, end)); // a copy: a slow client must not hold the piece
  }
}
