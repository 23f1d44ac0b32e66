/** Medians, and numbers as people read them. */

/** The median and the range of samples. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function spread(samples: readonly number[]): Spread {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1] ?? Number.NaN;
  const lower = sorted[(sorted.length - 1) >> 1] ?? Number.NaN;
  const [min = Number.NaN] = sorted;
  return { median: (lower + upper) / 2, min, max: sorted.at(-1) ?? Number.NaN };
}

export function median(samples: readonly number[]): number {
  return spread(samples).median;
}

/** `0.71 (0.68-0.74)`. */
export function formatSpread({ median, min, max }: Spread, digits = 2): string {
  return `${median.toFixed(digits)} (${min.toFixed(digits)}-${max.toFixed(digits)})`;
}

/** `1,234,567`. */
export function formatCount(count: number): string {
  return Math.round(count).toLocaleString("en-US");
}

/** `10 M`, `250 k`, `17`. */
export function formatRound(count: number): string {
  if (count >= 1e6) return `${count / 1e6} M`;
  return count >= 1e3 ? `${count / 1e3} k` : String(count);
}
