/**
 * The options that are numbers, with their defaults and bounds, guards for all options, and how long a
 * record may be.
 *
 * The library and the command line take their figures from this table; a test holds docs/ to it. A
 * wrong option is a mistake of the calling program, so it is refused before anything is opened.
 */
import { formatHostPort } from "./text.ts";

export interface NumberOption {
  /** Absent if it depends on the process: on its memory (src/memory.ts), or on its limit of open files. */
  readonly default?: number;
  /** The least allowed value. */
  readonly min: number;
  /** The greatest allowed value. */
  readonly max: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

function bytes(byDefault: number, max = GIB): Required<NumberOption> {
  return { default: byDefault, min: 1, max };
}

/** Node's longest timer; a longer one fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

function milliseconds(byDefault: number, min = 1): Required<NumberOption> {
  return { default: byDefault, min, max: TIMER_MS_MAX };
}

/** By their names in the library. On the command line `bodyBytesMax` is `--body-bytes-max`. */
export const NUMBER_OPTIONS = {
  port: { default: 8080, min: 0, max: 65_535 },
  bodyBytesMax: bytes(MIB, 4 * MIB),
  headerBytesMax: bytes(16 * KIB),
  headerTimeoutMs: milliseconds(10_000),
  requestTimeoutMs: milliseconds(30_000),
  keepAliveTimeoutMs: milliseconds(75_000),
  // Not 0: some versions of Node take it for no bound, others for no connection.
  connectionsMax: { min: 1, max: 1_000_000 },
  pendingBytesMax: { min: 1, max: GIB },
  pendingRequestsMax: { min: 1, max: 1_000_000 },
  queueBytesMax: { min: 1, max: GIB },
  drainTimeoutMs: milliseconds(10_000, 0),
  databaseDeadlineMs: milliseconds(10_000, 100),
  databaseConnections: { default: 4, min: 1, max: 64 },
  keep: { default: 14, min: 1, max: 10_000 },
} as const satisfies Record<string, NumberOption>;

export type NumberOptionName = keyof typeof NUMBER_OPTIONS;

/** @internal */
export type DefaultedName = Exclude<
  NumberOptionName,
  "connectionsMax" | "pendingBytesMax" | "pendingRequestsMax" | "queueBytesMax"
>;

/**
 * The longest line of a log, with its line feed: that of the longest body. A database refuses longer plants,
 * too, so that they can be moved back.
 *
 * @internal
 */
export const RECORD_BYTES_MAX = 4 * MIB + 64;

/** The address to listen on by default: only this machine reaches it. @internal */
export const DEFAULT_HOST = "127.0.0.1";

/** @internal */
export type Numbers = { readonly [Name in NumberOptionName]?: number | undefined };

/**
 * The value of an option, or its default.
 *
 * @throws RangeError unless it is whole and within its bounds.
 * @internal
 */
export function readNumber(options: Numbers, name: DefaultedName): number {
  const value = options[name];
  if (value === undefined) return NUMBER_OPTIONS[name].default;
  assertNumber(name, value);
  return value;
}

/** @throws RangeError like `readNumber`. @internal */
export function assertNumber(name: NumberOptionName, value: number): void {
  const { min, max } = NUMBER_OPTIONS[name];
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw new RangeError(`${name}: expected a whole number from ${min} to ${max}, got ${value}`);
}

/** The address of the admin listener. */
export interface AdminAddress {
  readonly host: string;
  readonly port: number;
}

/** `http://[::1]:9180`. @internal */
export function formatAdminAddress({ host, port }: AdminAddress): string {
  return `http://${formatHostPort(host, port)}`;
}

/** `sun_path` of unix(7) holds 108 bytes, the last one a NUL. @internal */
export const SOCKET_PATH_BYTES_MAX = 107;

/**
 * A base path as the listener takes it: empty, or with a slash in front and none at its end.
 *
 * @throws RangeError unless it is a path (RFC 3986 section 3.3).
 * @internal
 */
export function normalizeBasePath(basePath: string): string {
  const path = basePath.replace(/\/$/, "");
  if (path !== "" && !/^(?:\/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+$/.test(path)) {
    throw new RangeError(`basePath: expected a path like /garden, got "${basePath}"`);
  }
  return path;
}

/** Every origin. @internal */
export const ANY_ORIGIN = "*";

/** `scheme://host[:port]`, as a browser sends it (RFC 6454 section 7). */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#,*@]+$/;

/** @throws RangeError unless a browser could send each of them. @internal */
export function assertOrigins(origins: readonly string[]): void {
  for (const origin of origins) {
    if (origin === ANY_ORIGIN || isOrigin(origin)) continue;
    throw new RangeError(
      `corsOrigins: expected an origin such as https://app.example, or *, got "${origin}"`,
    );
  }
}

function isOrigin(text: string): boolean {
  if (!ORIGIN.test(text)) return false;
  // A browser leaves a default port out, and writes the host in lower case.
  return !/^https?:/.test(text) || (URL.canParse(text) && new URL(text).origin === text);
}
