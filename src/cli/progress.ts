/**
 * A line on the terminal that says how far something long has come. Where
 * standard error is no terminal nothing is printed.
 */

/** Often enough to look alive, seldom enough to cost nothing. */
const REDRAW_MS = 100;

export class Progress {
  readonly #what: string;
  readonly #startedAt = performance.now();
  #drawnAt = 0;
  #isDrawn = false;

  constructor(what: string) {
    this.#what = what;
  }

  /** `total` is `undefined` where the length of a stream is not known. */
  update(bytes: number, total: number | undefined): void {
    const now = performance.now();
    if (!process.stderr.isTTY || now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    this.#isDrawn = true;
    const seconds = (now - this.#startedAt) / 1000;
    process.stderr.write(`\r\u001b[K${describe(this.#what, bytes, total, seconds)}`);
  }

  /** Removes the line, so that what is printed next has the terminal to itself. */
  clear(): void {
    if (this.#isDrawn) process.stderr.write("\r\u001b[K");
    this.#isDrawn = false;
  }
}

const BAR_CELLS = 24;

/** `importing [####----] 42 % of 120 MB, 31 MB/s, 3 s left`. */
export function describe(
  what: string,
  bytes: number,
  total: number | undefined,
  seconds: number,
): string {
  const perSecond = bytes / Math.max(seconds, 0.001);
  const rate = `${megabytes(perSecond)}/s`;
  if (total === undefined) return `${what} ${megabytes(bytes)}, ${rate}`;
  const share = total === 0 ? 1 : Math.min(bytes / total, 1);
  const bar = "#".repeat(Math.floor(share * BAR_CELLS)).padEnd(BAR_CELLS, "-");
  const left = Math.ceil(Math.max(total - bytes, 0) / Math.max(perSecond, 1));
  const percent = Math.floor(share * 100);
  return `${what} [${bar}] ${percent} % of ${megabytes(total)}, ${rate}, ${left} s left`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
