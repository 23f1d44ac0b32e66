/**
 * The options that are numbers, with their defaults and bounds, and checks of other options.
 * A wrong option is a mistake of the calling program, so it is refused before anything is opened.
 */

export interface NumberOption {
  /** Absent if it depends on the memory of the process or its limit of open files. */
  readonly default?: number;
  readonly min: number;
  readonly max: number;
}

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
/** Node's longest timer; a longer one fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** By their names in the library. On the command line `bodyBytesMax` is `--body-bytes-max`. */
export const NUMBER_OPTIONS = {
  port: { default: 8080, min: 0, max: 65_535 },
  bodyBytesMax: { default: MIB, min: 1, max: 4 * MIB },
  requestTimeoutMs: { default: 30_000, min: 1, max: TIMER_MS_MAX },
  keepAliveTimeoutMs: { default: 75_000, min: 1, max: TIMER_MS_MAX },
  // Not 0: for some versions of Node it means no bound, for others no connection.
  connectionsMax: { min: 1, max: 1_000_000 },
  pendingBytesMax: { min: 32 * 1024, max: GIB },
  queueBytesMax: { min: 1, max: GIB },
  drainTimeoutMs: { default: 10_000, min: 0, max: TIMER_MS_MAX },
  databaseDeadlineMs: { default: 10_000, min: 100, max: TIMER_MS_MAX },
  databaseConnections: { default: 4, min: 1, max: 64 },
  keep: { default: 14, min: 1, max: 10_000 },
} as const satisfies Record<string, NumberOption>;

export type NumberOptionName = keyof typeof NUMBER_OPTIONS;

/** The address to listen on by default: only this machine reaches it. */
export const DEFAULT_HOST = "127.0.0.1";

/** The longest line of a log, with its line feed: that of the longest body. */
export const RECORD_BYTES_MAX = NUMBER_OPTIONS.bodyBytesMax.max + 64;

type Numbers = { readonly [Name in NumberOptionName]?: number | undefined };

/** @throws RangeError unless each number that is given is whole and within its bounds. */
export function assertNumbers(options: Numbers): void {
  for (const [name, { min, max }] of Object.entries(NUMBER_OPTIONS)) {
    const value = options[name as NumberOptionName];
    if (value === undefined || (Number.isInteger(value) && value >= min && value <= max)) continue;
    throw new RangeError(`${name}: expected a whole number from ${min} to ${max}, got ${value}`);
  }
}

/**
 * A base path as the listener takes it: empty, or with a slash at its start and none at its end.
 *
 * @throws RangeError unless it is a path (RFC 3986 section 3.3).
 */
export function checkBasePath(basePath: string): string {
  const path = basePath.replace(/\/$/, "");
  if (path === "" || /^(?:\/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+$/.test(path)) return path;
  throw new RangeError(`basePath: expected a path such as /garden, got "${basePath}"`);
}

/** `scheme://host[:port]`, as a browser sends it (RFC 6454 section 7). */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#,*@]+$/;

/** @throws RangeError unless a browser could send each of them. */
export function checkOrigins(origins: readonly string[]): ReadonlySet<string> {
  for (const origin of origins) {
    // A browser leaves a default port out, and writes the host in lower case.
    const isWeb = /^https?:/.test(origin);
    const isExact = !isWeb || (URL.canParse(origin) && new URL(origin).origin === origin);
    if (origin === "*" || (ORIGIN.test(origin) && isExact)) continue;
    const expected = "an origin such as https://app.example, or *";
    throw new RangeError(`corsOrigins: expected ${expected}, got "${origin}"`);
  }
  return new Set(origins);
}
