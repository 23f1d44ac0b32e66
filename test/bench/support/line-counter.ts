/** How many lines a growing file has: each look reads only what came since the last one. */
import fs from "node:fs";

const LINE_FEED = 10;
const CHUNK_BYTES = 1024 * 1024;

export class LineCounter {
  readonly #path: string;
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  /** Bytes looked at so far. */
  bytes: number;
  /** Lines that ended since it was made. */
  lines = 0;

  /** Counts from the present end of the file, which need not exist yet. */
  constructor(path: string) {
    this.#path = path;
    this.bytes = fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  look(): void {
    if (!fs.existsSync(this.#path)) return;
    const fd = fs.openSync(this.#path, "r");
    try {
      for (;;) {
        const got = fs.readSync(fd, this.#chunk, 0, CHUNK_BYTES, this.bytes);
        if (got === 0) return;
        this.bytes += got;
        this.#count(this.#chunk.subarray(0, got));
      }
    } finally {
      fs.closeSync(fd);
    }
  }

  #count(bytes: Buffer): void {
    for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) {
      this.lines++;
    }
  }
}
