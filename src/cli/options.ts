/** Options that several commands share, and the parsers of option values. */
import { BlockList, isIP } from "node:net";
import {
  checkBasePath,
  checkOrigins,
  DEFAULT_HOST,
  NUMBER_OPTIONS,
  type NumberOption,
  type NumberOptionName,
} from "../core/options.ts";
import type { Option } from "./command.ts";

/** Under systemd, the first of its state directories (systemd.exec(5), StateDirectory=). */
const DEFAULT_DATA = process.env.STATE_DIRECTORY?.split(":")[0] || "./data";
export const DATA = { ...text("DIR", "the data directory"), defaultText: DEFAULT_DATA };

export const ADMIN: Option<{ readonly host: string; readonly port: number }> = {
  placeholder: "HOST:PORT",
  help: "the admin listener; a port alone is one of 127.0.0.1",
  expected: "HOST:PORT, such as 127.0.0.1:9180, or a port",
  parse: (text) => {
    const [, host = DEFAULT_HOST, digits] =
      /^(?:([\w.-]+|\[[0-9a-f:.]+\]):)?([0-9]{1,5})$/i.exec(text) ?? [];
    const port = Number(digits);
    return port <= NUMBER_OPTIONS.port.max ? { host: host.replace(/[[\]]/g, ""), port } : undefined;
  },
};

/** Of the listener of `serve`, by their keys. */
export const LISTENER = {
  host: { ...text("HOST", "the address to listen on"), defaultText: DEFAULT_HOST },
  ...numbers({ port: "the port; 0 selects a free one" }),
  basePath: {
    placeholder: "/PATH",
    help: "a path in front of /plants",
    expected: "a path such as /garden",
    parse: checkBasePath,
  },
  tlsCert: text("FILE", "serve HTTPS with this certificate chain (PEM)"),
  tlsKey: text("FILE", "its private key, not encrypted"),
  admin: ADMIN,
  corsOrigin: {
    placeholder: "ORIGIN",
    help: "an origin whose pages may call the API, or *; repeatable",
    isRepeatable: true,
    expected: "origins such as https://app.example, or *",
    parse: (text: string) => [...checkOrigins(text.split(","))],
  },
  trustedProxy: {
    placeholder: "ADDRESS",
    help: "a proxy, or a block of addresses, whose X-Forwarded-For is trusted; repeatable",
    isRepeatable: true,
    expected: "addresses such as 10.0.0.7, 10.0.0.0/8 or fd00::/8",
    parse: parseProxies,
  },
};

/** @throws TypeError or RangeError unless each is an address or a block. */
function parseProxies(text: string): BlockList {
  const proxies = new BlockList();
  for (const each of text.split(",")) {
    const [, address = "", prefix] = /^([^/]+)(?:\/([0-9]+))?$/.exec(each) ?? [];
    const family = isIP(address) === 6 ? "ipv6" : "ipv4"; // else BlockList throws
    if (prefix === undefined) proxies.addAddress(address, family);
    else proxies.addSubnet(address, Number(prefix), family);
  }
  return proxies;
}

export function text(placeholder: string, help: string): Option<string> {
  return { placeholder, help, expected: placeholder, parse: (given) => given || undefined };
}

/** A switch; as a flag it arrives as `true`. */
export function flag(help: string): Option<boolean> {
  const values = new Map(Object.entries({ true: true, 1: true, false: false, 0: false }));
  return { help, expected: "1, true, 0 or false", parse: (given) => values.get(given) };
}

/** An option that takes one of these words. */
export function oneOf<const Word extends string>(
  words: readonly Word[],
  help: string,
): Option<Word> {
  const parse = (text: string) => words.find((word) => word === text);
  return {
    placeholder: words.join("|"),
    help,
    expected: words.join(", ").replace(/, ([^,]*)$/, " or $1"),
    parse,
  };
}

/** Makes an option of each number option of the library, with its bounds, its default and this help. */
export function numbers<Name extends NumberOptionName>(
  helps: Readonly<Record<Name, string>>,
): { readonly [N in Name]: Option<number> & { readonly defaultText: string } } {
  const options = Object.entries<string>(helps).map(([name, help]) => {
    const { min, max, default: byDefault }: NumberOption = NUMBER_OPTIONS[name as Name];
    const parse = (text: string) => {
      const value = Number(text);
      return /^[0-9]{1,15}$/.test(text) && value >= min && value <= max ? value : undefined;
    };
    const expected = `a whole number from ${min} to ${max}`;
    return [name, { placeholder: "N", help, defaultText: `${byDefault}`, expected, parse }];
  });
  return Object.fromEntries(options);
}

const UNIT_MS = { h: 3_600_000, d: 86_400_000 };

/** In milliseconds since 1970. A date is the end of that day, UTC. */
export const EXPIRES: Option<number> = {
  placeholder: "TIME",
  help: "when it expires: 90d, 12h or 2030-01-31 (its end, UTC); default never",
  expected: "a time in the future, such as 90d, 12h or 2030-01-31",
  parse: (given) => {
    const [, amount, unit] = /^([1-9][0-9]{0,4})([hd])$/.exec(given) ?? [];
    if (amount !== undefined) return Date.now() + Number(amount) * UNIT_MS[unit as "h" | "d"];
    const at = new Date(`${given}T23:59:59.999Z`); // Date makes 3 March of 31 February
    const isDay = at.toISOString().startsWith(`${given}T`);
    return isDay && at.getTime() > Date.now() ? at.getTime() : undefined;
  },
};
