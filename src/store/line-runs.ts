/**
 * Lines of a block, kept as the pieces of it in which they stand side by side:
 * where all follow each other, as nearly everywhere, joining them copies nothing.
 */
export class LineRuns {
  readonly #bytes: Buffer;
  readonly #pieces: Buffer[] = [];
  #start = 0;
  #end = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Adds what stands between two places of the block, behind all that was added before. */
  add(start: number, end: number): void {
    if (start !== this.#end) {
      this.#finish();
      this.#start = start;
    }
    this.#end = end;
  }

  /** Adds a line that does not stand in the block in this form. */
  insert(line: string): void {
    this.#finish();
    this.#pieces.push(Buffer.from(line));
  }

  /** All of them. */
  join(): Buffer {
    this.#finish();
    const [first] = this.#pieces;
    return first !== undefined && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces);
  }

  #finish(): void {
    if (this.#end > this.#start) this.#pieces.push(this.#bytes.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }
}
