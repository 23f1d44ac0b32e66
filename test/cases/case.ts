/**
 * The rows of the contract: what a client sends, what it gets, and what is stored.
 *
 * Rows are data, without an assertion: test/contract/runner runs them on every backend that they do not skip.
 * In any text, `<0>` to `<9>` are ids of this row alone, of seven digits; `<write>`, `<read>`,
 * `<both>`, `<expired>` and `<revoked>` are tokens.
 */
import { BlockList } from "node:net";
import type { ListenerOptions } from "../../src/index.ts";
import type { RequestParts } from "../support/contract.ts";

/** What the rows run on. `failing` is a service whose store and token check fail by the id and the token. */
export type BackendName = "file" | "memory" | "mounted" | "process" | "postgres" | "failing";

/** A request; by default a create with a valid token. A request with another method sends no body. */
export interface Ask extends RequestParts {
  /** A body in chunks, followed by the last chunk. */
  readonly chunks?: readonly (string | Buffer)[];
  /** Sends the head alone; the next item may be the body. */
  readonly isHeadOnly?: boolean;
}

/** An Ask, or bytes in Latin-1. */
export type Send = Ask | string;

export interface Case {
  /** A sentence about behaviour. */
  readonly says: string;
  /** On one connection, each after the response to the one before. */
  readonly send: Send | readonly Send[];
  /** All in one packet. */
  readonly how?: "pipelined";
  /** Where the bytes are cut into packets, counted from their end; or a packet for each byte. */
  readonly cut?: number | "everywhere";
  /** How many bytes at the end are not sent. */
  readonly lacks?: number;
  /** The client closes its side after it sent. */
  readonly ends?: boolean;
  /** For each response a status without an Error body (100, 200, 204, any of HEAD), or an error number. */
  readonly gets: number | readonly number[];
  /** The exact body of the last response; by default the Plant in the last line that is stored. */
  readonly body?: string;
  /** Headers of the last response; `undefined` for one that must be absent. */
  readonly headers?: Readonly<Record<string, string | RegExp | undefined>>;
  /** What the message of the last response says. */
  readonly message?: RegExp;
  /** The lines that this row adds to the log, if they are not there yet. Default: none. */
  readonly stores?: string | readonly string[];
  /**
   * The server closes the connection after the last response, which says so with `Connection: close`. Default:
   * it stays open. `unannounced`: it closes without saying so, because the requests that it drops came after it
   * had decided on the response.
   */
  readonly closes?: boolean | "unannounced";
  /** The address of the client that is published. */
  readonly client?: string;
  /** Which server it is sent to. Default: `plain`. */
  readonly on?: keyof typeof SERVERS;
  /** Why it does not run on a backend. */
  readonly skip?: Partial<Record<BackendName, string>>;
}

type Options = "basePath" | "bodyBytesMax" | "corsOrigins" | "trustedProxies";

export interface ServerSetting extends Pick<ListenerOptions, Options> {
  /** Lines of the plants that are stored before. */
  readonly given?: readonly string[];
  readonly skip?: Partial<Record<BackendName, string>>;
}

function proxies(): BlockList {
  const list = new BlockList();
  list.addAddress("127.0.0.1");
  list.addSubnet("10.0.0.0", 8);
  list.addSubnet("fd00::", 8, "ipv6");
  return list;
}

export const APP = "https://app.example";
export const OTHER = "http://localhost:3000";

/** Plants 1 to `count`. */
export function plants(count: number, name = "plant"): string[] {
  return Array.from({ length: count }, (_, at) => `{"id":${at + 1},"name":"${name}"}`);
}

/** What most reads find: in the order of their ids, which is that of the creates, so every backend lists them alike. */
export const STORED = [
  '{"id":-9223372036854775808,"name":"lowest","tag":""}',
  '{"id":-5,"name":"\\ud800","tag":"木"}',
  '{"id":0,"name":""}',
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id":8,"name":"Ivy"}',
  '{"id":9007199254740993,"name":"🌱"}',
  '{"id":9223372036854775807,"name":"highest"}',
];

/** One server and one store each, on every backend that runs a row of it. */
export const SERVERS = {
  plain: {},
  empty: {},
  reads: { given: STORED },
  many: { given: plants(1002) },
  long: { given: plants(5, "x".repeat(600_000)) },
  small: { bodyBytesMax: 100 },
  garden: { basePath: "/garden", given: plants(2) },
  deep: { basePath: "/a/b-c/~d" },
  plantsPath: { basePath: "/plants" },
  escaped: { basePath: "/%C3%A9" },
  slash: { basePath: "/" },
  app: { corsOrigins: [APP], given: plants(2) },
  apps: { corsOrigins: [OTHER, APP] },
  open: { corsOrigins: ["*"] },
  appGarden: { basePath: "/garden", corsOrigins: [APP] },
  proxied: {
    trustedProxies: proxies(),
    skip: { process: "the address is seen in the process of the server" },
  },
} as const satisfies Record<string, ServerSetting>;

/** A create with this body. */
export function create(body: string | Buffer, headers: Ask["headers"] = {}): Ask {
  return { body, headers };
}

/** A read by a token that may read. */
export function get(target: string, headers: Ask["headers"] = {}, method = "GET"): Ask {
  return { method, target, headers: { Authorization: "Bearer <read>", ...headers } };
}

/** A message that names these members as faulty, and no other. */
export function naming(...members: readonly string[]): RegExp {
  const all = ["id", "name", "tag"].map((member) => {
    return `(?${members.includes(member) ? "=" : "!"}.*\\b${member}: )`;
  });
  return new RegExp(`^${all.join("")}`);
}

/** The plant of most rows. */
export const X = '{"id":<1>,"name":"x"}';
/** A second one, which a row must not store where it says nothing. */
export const Y = '{"id":<2>,"name":"y"}';

/** A row of a request that is carried out, and stores the plant of most rows. */
export function good(says: string, send: Case["send"], more: Partial<Case> = {}): Case {
  return { says, send, gets: 200, stores: X, ...more };
}

/** A row of a request that is refused, and stores nothing. */
export function bad(
  says: string,
  gets: number,
  send: Case["send"],
  more: Partial<Case> = {},
): Case {
  return { says, send, gets, ...more };
}

/** A row of a request that is refused and closes, with another one behind it that is not carried out. */
export function closed(says: string, gets: number, send: Send, more: Partial<Case> = {}): Case {
  return { says, send: [send, create(Y)], how: "pipelined", gets, closes: true, ...more };
}

/** Rows of creates that have each of these values for a header. */
export function each(
  header: string,
  gets: number,
  values: readonly (string | readonly string[] | undefined)[],
  more: Partial<Case> = {},
): Case[] {
  const stored = gets === 200 && { stores: X };
  return values.map((value) => {
    const says = `${header}: ${`${value}`.slice(0, 60)} is ${gets}`;
    return { says, send: create(X, { [header]: value }), gets, ...stored, ...more };
  });
}

/** Whom the server lets go after its response. */
export const CLOSES = { closes: true };

/** The parts of a text between its vertical bars and line feeds. */
export function list(text: string): string[] {
  return text.trim().split(/ \| |(?<!\r)\n */);
}

/** Why rows do not run on `mounted`: what the server around the listener does by itself. */
export const EMBEDDER = {
  parses: { mounted: "the embedder's server responds to what it cannot parse" },
  checksHost: { mounted: "the embedder's server checks the Host" },
  expects: { mounted: "the embedder's server responds to Expect" },
  readsOn: { mounted: "the embedder's server reads on" },
} as const;

/** Rows with one reason not to run on a backend. */
export function skipped(skip: Case["skip"], rows: readonly Case[]): Case[] {
  return rows.map((row) => ({ ...row, skip: { ...skip, ...row.skip } }));
}
