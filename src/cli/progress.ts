/**
 * A line on the terminal that says how far something long has come. It makes
 * way for whatever is reported. Where standard error is no terminal nothing is
 * printed.
 */

/** Often enough to look alive, seldom enough to cost nothing. */
const REDRAW_MS = 100;

export class Progress {
  // Of the process, which has one terminal.
  static #isDrawn = false;
  static #changedAt = 0;

  readonly #what: string;
  readonly #startedAt = performance.now();

  constructor(what: string) {
    this.#what = what;
  }

  /** `total` is `undefined` where the length of a stream is not known. */
  update(bytes: number, total: number | undefined): void {
    const now = performance.now();
    if (!process.stderr.isTTY || now - Progress.#changedAt < REDRAW_MS) return;
    Progress.#changedAt = now;
    Progress.#isDrawn = true;
    const seconds = (now - this.#startedAt) / 1000;
    process.stderr.write(`\r\u001b[K${describe(this.#what, bytes, total, seconds)}`);
  }

  /** Removes the line; what is printed next, or soon, has the terminal to itself. */
  static clear(): void {
    if (Progress.#isDrawn) process.stderr.write("\r\u001b[K");
    Progress.#isDrawn = false;
    Progress.#changedAt = performance.now();
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
  const bar = "#".repeat(Math.floor(shareOf(bytes, total) * BAR_CELLS)).padEnd(BAR_CELLS, "-");
  const left = Math.ceil(Math.max(total - bytes, 0) / Math.max(perSecond, 1));
  return `${what} [${bar}] ${describeShare(bytes, total)}, ${rate}, ${left} s left`;
}

/** `42 % of 120.0 MB`. */
export function describeShare(bytes: number, total: number): string {
  return `${Math.floor(shareOf(bytes, total) * 100)} % of ${megabytes(total)}`;
}

/** At most 1: a file may grow while it is read. */
function shareOf(bytes: number, total: number): number {
  return total === 0 ? 1 : Math.min(bytes / total, 1);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
