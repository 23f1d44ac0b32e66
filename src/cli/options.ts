/** Options that several commands share, and the parsers of option values. */
import type { AdminAddress } from "../core/host-port.ts";
import {
  assertOrigins,
  DEFAULT_HOST,
  NUMBER_OPTIONS,
  type NumberOption,
  type NumberOptionName,
  normalizeBasePath,
} from "../core/options.ts";
import { parseAdminAddress } from "../index.ts";
import { type Option, UsageError } from "./command.ts";

/** What applies without `connectionsMax`, the one number that has no default. */
const PROCESS_DEFAULT = "as many as open files and half of the heap allow";

/** An option that always has a value. */
type Defaulted<T> = Option<T> & { readonly defaultText: string };

export const DATA: Defaulted<string> = {
  placeholder: "DIR",
  help: "the data directory",
  defaultText: "./data",
  supervisorVariable: "STATE_DIRECTORY", // systemd.exec(5), StateDirectory=
  parse: parseText,
};

export const HOST: Defaulted<string> = {
  placeholder: "HOST",
  help: "the address to listen on",
  defaultText: DEFAULT_HOST,
  parse: parseText,
};

export const { port: PORT } = numbers({ port: "the port to listen on; 0 selects a free one" });

export const BASE_PATH: Option<string> = {
  placeholder: "/PATH",
  help: "a path in front of /plants",
  unset: "none",
  parse: (text) => parseBy("a path such as /garden", () => normalizeBasePath(text)),
};

export const ADMIN: Option<AdminAddress> = {
  placeholder: "ADDRESS",
  help: "HOST:PORT or the path of a socket for health, metrics and the status page",
  unset: "off",
  parse: (text) =>
    parseBy("HOST:PORT, or the path of a socket with a slash in it", () => parseAdminAddress(text)),
};

export const CORS_ORIGIN: Option<readonly string[]> = {
  placeholder: "ORIGIN",
  help: "an origin whose pages may use the service, or * for any; may be given several times",
  isRepeatable: true,
  parse: (text) => {
    const origins = text.split(",");
    parseBy("origins such as https://app.example, or *", () => assertOrigins(origins));
    return origins;
  },
};

export const TLS_CERT: Option<string> = {
  placeholder: "FILE",
  help: "serve HTTPS with this certificate (PEM, followed by its intermediates); SIGHUP reloads it",
  parse: parseText,
};

export const JSON_OUTPUT = switchOption("print JSON lines instead of a table");

export function switchOption(help: string): Option<boolean> {
  return { help, parse: parseSwitch };
}

/** Parses by the library. @throws UsageError saying what was expected. */
function parseBy<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new UsageError(`expected ${what}`);
  }
}

export function parseText(text: string): string {
  if (text === "") throw new UsageError("expected some text");
  return text;
}

/** A flag arrives as "true"; a variable may also be 1, 0 or false. */
export function parseSwitch(text: string): boolean {
  if (text === "true" || text === "1") return true;
  if (text === "false" || text === "0") return false;
  throw new UsageError("expected 1, true, 0 or false");
}

/** An option that takes one of these words. */
export function oneOf<const Word extends string>(
  words: readonly Word[],
  help: string,
): Option<Word> {
  const parse = (text: string): Word => {
    const word = words.find((candidate) => candidate === text);
    if (word === undefined) throw new UsageError(`expected ${words.join(" or ")}`);
    return word;
  };
  return { placeholder: words.join("|"), help, parse };
}

/** A parser of whole numbers between two bounds, both included. */
export function integerBetween(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^[0-9]{1,15}$/.test(text) && value >= min && value <= max) return value;
    throw new UsageError(`expected a whole number from ${min} to ${max}`);
  };
}

type Numbers<Name extends NumberOptionName> = {
  readonly [Each in Name]: (typeof NUMBER_OPTIONS)[Each] extends { readonly default: number }
    ? Defaulted<number>
    : Option<number>;
};

/** Options of the library under their names there, with its defaults and bounds; takes their help. */
export function numbers<Name extends NumberOptionName>(
  helps: Readonly<Record<Name, string>>,
): Numbers<Name> {
  const options = Object.entries<string>(helps).map(([name, help]) => {
    const { default: byDefault, min, max }: NumberOption = NUMBER_OPTIONS[name as Name];
    const option = { placeholder: placeholderOf(name), help, parse: integerBetween(min, max) };
    const fallback =
      byDefault === undefined ? { unset: PROCESS_DEFAULT } : { defaultText: `${byDefault}` };
    return [name, { ...option, ...fallback }];
  });
  return Object.fromEntries(options);
}

function placeholderOf(name: string): string {
  if (name.endsWith("BytesMax")) return "BYTES";
  if (name.endsWith("Ms")) return "MS";
  return name.endsWith("Max") ? "COUNT" : "PORT";
}

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 };

/** A time in the future: `90d` from now, or `2027-01-31`; in milliseconds since 1970. */
export function parseExpiry(text: string): number {
  const [, amount, unit] = /^([1-9][0-9]{0,5})([smhdw])$/.exec(text) ?? [];
  const span = Number(amount) * UNIT_MS[unit as keyof typeof UNIT_MS];
  const time = amount === undefined ? parseDate(text) : Date.now() + span;
  if (time > Date.now()) return time;
  throw new UsageError(
    "expected a time in the future: a number and s, m, h, d or w, such as 90d, or a date, such as 2030-01-31",
  );
}

/** Milliseconds since 1970, or NaN. */
function parseDate(text: string): number {
  const [, day] = /^([0-9]{4}-[0-9]{2}-[0-9]{2})(T[0-9:.]+(Z|[+-][0-9:]+))?$/.exec(text) ?? [];
  const midnight = Date.parse(day ?? "");
  // Date.parse makes 3 March of 31 February.
  const isDay = !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(`${day}T`);
  return isDay ? Date.parse(text) : Number.NaN;
}
