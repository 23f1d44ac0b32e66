/**
 * What one client may try against the others: each attack is a line of this table. `attacker.ts` carries
 * one out in a process of its own, and `run-attack.ts` measures what other clients notice.
 */
import { encodeRequest } from "../support/contract.ts";

/** What an attacker knows of the server. */
export interface Target {
  readonly port: number;
  readonly adminPort: number;
  /** A token with the scope `write`, and one with the scope `read`. */
  readonly writer: string;
  readonly reader: string;
  /** The `ETag` of each long plant, by its id. */
  readonly etags: Readonly<Record<string, string>>;
}

/** Bytes to send, of which the next connection may send others. */
export type Send = (target: Target, count: number) => Buffer;

export interface Attack {
  readonly name: string;
  readonly by: "a read token" | "a write token" | "no token" | "a local user";
  readonly connections: number;
  /** The bytes of the request with this number. */
  readonly send: Send;
  /** How many requests a connection sends before it has an answer; default: 1. */
  readonly ahead?: number;
  /** The time between two connections that are opened; default: none. */
  readonly paceMs?: number;
  /** What happens to the answers: each one that is read is followed by another request. */
  readonly answers: "read" | "read slowly" | "never read";
  /** In how many bytes the requests are written, one piece of each connection a turn; default: whole. */
  readonly pieceBytes?: number;
  /** What limits the memory of the server, unless the environment says so; default: a heap of 256 MB. */
  readonly memory?: readonly MemoryLimit[];
  readonly isTls?: boolean;
  /** The bar for other clients' creates; default: 100. */
  readonly p99MsMax?: number;
  /** The bar for bytes in the server's log for each byte of the attacker; default: none. */
  readonly logShareMax?: number;
  /** Statuses that the attacker must not get. */
  readonly forbidden?: readonly number[];
}

/** Limits of containers, of which `image` is 128 MiB with the settings of the image, and one of the heap. */
export type MemoryLimit = "image" | "256 MiB" | "512 MiB" | "heap of 256 MB";

const MIB = 2 ** 20;
const NAME_BYTES = MIB - 80;

/** Long names of one character, written in JSON as a client may write them, by the id of their plant. */
export const LONG_NAMES: Readonly<Record<string, readonly [what: string, written: string]>> = {
  "-1": ["DEL", "\u007f"],
  "-2": ["U+0085", "\u0085"],
  "-3": ["U+2028", "\u2028"],
  "-4": ["\\t", "\\t"],
  "-5": ["lone surrogates", "\\ud800"],
  "-6": ["a plain letter", "a"],
};

/** The body of a create with a name of 1 MiB in which one text repeats. */
export function longBody(id: number | string, written: string): Buffer {
  const name = written.repeat(Math.floor(NAME_BYTES / Buffer.byteLength(written)));
  return Buffer.from(`{"id":${id},"name":"${name}"}`);
}

/** The body that creates a plant of a victim, and its line in the log. */
export const victimPlant = (id: string) => `{"id":${id},"name":"victim"}`;

/** The server has so many short plants, with the ids from 0 on, before the long ones. */
export const SHORT_PLANTS = 60_000;

/** The first id of plants that attackers create. */
const FIRST_ID = 2_000_000_000;

/** A request without a body. */
export function get(
  token: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  method = "GET",
): Buffer {
  const bodiless = { "Content-Type": undefined, "Content-Length": undefined, ...headers };
  return encodeRequest({ token }, { method, target, headers: bodiless });
}

const head = (token: string, target: string) => get(token, target, {}, "HEAD");

/** Makes the same bytes only once. */
function same(make: (target: Target) => Buffer): Send {
  let bytes: Buffer | undefined;
  return (target) => {
    bytes ??= make(target);
    return bytes;
  };
}

const create = (token: string, body: string | Buffer) => encodeRequest({ token }, { body });

/** A create of 1 MiB with an id of its own. */
function creates(written: string): Send {
  const rest = longBody("", written).subarray('{"id":'.length);
  return ({ writer }, count) =>
    create(writer, Buffer.concat([Buffer.from(`{"id":${FIRST_ID + count}`), rest]));
}

const fillBody = (begin: string, piece: string) =>
  same(({ writer }) => create(writer, (begin + piece.repeat(MIB)).slice(0, MIB)));

/** Ways to read one long plant, one after the other. */
function readsOf(id: string): Send {
  const before = Number(id) === -1 ? SHORT_PLANTS - 1 : Number(id) + 1;
  const ways = [
    ({ reader }: Target) => get(reader, `/plants/${id}`),
    ({ reader }: Target) => head(reader, `/plants/${id}`),
    ({ reader, etags }: Target) =>
      get(reader, `/plants/${id}`, { "If-None-Match": etags[id] ?? "" }),
    ({ reader }: Target) => head(reader, `/plants?limit=1&after=${before}`),
  ].map(same);
  return (target, count) => ways[count % ways.length]?.(target, count) ?? Buffer.alloc(0);
}

/** Bodies that stay unfinished: they take a budget to the last byte. */
const HALF_SENT = [
  ...Array<number>(63).fill(MIB - 1),
  ...Array.from({ length: 16 }, (_, at) => [2 ** (19 - at), 2 ** (19 - at)]).flat(),
];

function halfSent({ writer }: Target, count: number): Buffer {
  const request = create(writer, longBody(1, "a"));
  const bodyBytes = HALF_SENT[count] ?? HALF_SENT.at(-1 - (count % 32)) ?? 0;
  const headBytes = request.indexOf("\r\n\r\n") + 4;
  return request.subarray(0, headBytes + Math.min(bodyBytes, request.length - headBytes - 1));
}

/** A ClientHello that is announced as 131,000 bytes, in records of 16 KiB, without its end. */
function unfinishedHello(): Buffer {
  const hello = Buffer.alloc(120_000, "a");
  Buffer.from([1, 0x01, 0xff, 0xb8, 3, 3]).copy(hello);
  const records: Buffer[] = [];
  for (let at = 0; at < hello.length; at += 16_384) {
    const part = hello.subarray(at, at + 16_384);
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(records);
}

const LONG_PATH = `/${"x".repeat(15_900)}`;

const unknown = (path: string) => Buffer.from(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);

const asks = (path: string, more = "") =>
  same(() => Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${more}\r\n`));

const READS: readonly Attack[] = [
  ...Object.entries(LONG_NAMES).map(
    ([id, [what]]): Attack => ({
      name: `GET, HEAD and If-None-Match of 1 MiB of ${what}`,
      by: "a read token",
      connections: 8,
      ahead: 10,
      send: readsOf(id),
      answers: "read",
      p99MsMax: 150,
    }),
  ),
  {
    name: "HEAD of a page with 1 MiB of DEL",
    by: "a read token",
    connections: 8,
    ahead: 10,
    send: same(({ reader }) => head(reader, `/plants?limit=1&after=${SHORT_PLANTS - 1}`)),
    answers: "read",
    p99MsMax: 150,
  },
  {
    name: "HEAD of pages of 1,000 plants",
    by: "a read token",
    connections: 12,
    ahead: 10,
    send: same(({ reader }) => head(reader, "/plants?limit=1000")),
    answers: "read",
  },
  {
    name: "140 streams that are read slowly",
    by: "a read token",
    connections: 140,
    send: same(({ reader }) => get(reader, "/plants", { Accept: "application/x-ndjson" })),
    answers: "read slowly",
  },
  {
    name: "GET of 1 MiB, answers never read",
    by: "a read token",
    connections: 300,
    ahead: 10,
    send: same(({ reader }) => get(reader, "/plants/-6")),
    answers: "never read",
    p99MsMax: 150,
    memory: ["heap of 256 MB", "256 MiB"],
  },
];

const WRITES: readonly Attack[] = [
  {
    name: "repeats of 1 MiB, answers never read",
    by: "a write token",
    connections: 1000,
    paceMs: 5,
    send: same(({ writer }) => create(writer, longBody(-6, "a"))),
    answers: "never read",
    memory: ["heap of 256 MB", "256 MiB"],
  },
  {
    name: "creates of 1 MiB, answers never read",
    by: "a write token",
    connections: 1000,
    paceMs: 5,
    send: creates("a"),
    answers: "never read",
    memory: ["heap of 256 MB", "256 MiB"],
  },
  {
    name: "conflicts of 40 bytes with 1 MiB of DEL",
    by: "a write token",
    connections: 8,
    ahead: 10,
    send: same(({ writer }) => create(writer, '{"id":-1,"name":"another"}')),
    answers: "read",
  },
  {
    name: "half-sent bodies",
    by: "a write token",
    connections: HALF_SENT.length,
    paceMs: 10,
    send: halfSent,
    answers: "read",
  },
  ...[64, 200].map(
    (connections): Attack => ({
      name: `${connections} bodies of 1 MB at once in pieces of 64 KiB`,
      by: "a write token",
      connections,
      send: creates("a"),
      answers: "read",
      pieceBytes: 64 * 1024,
      memory: ["256 MiB", "image"],
    }),
  ),
  {
    name: "64 bodies of 1 MB at once in pieces of 1 byte",
    by: "a write token",
    connections: 64,
    send: creates("a"),
    answers: "read",
    pieceBytes: 1,
    memory: ["256 MiB"],
  },
  {
    name: "64 bodies in chunks of 1 byte",
    by: "a write token",
    connections: 64,
    send: same(({ writer }) =>
      encodeRequest(
        { token: writer },
        {
          headers: { "Transfer-Encoding": "chunked" },
          body: "1\r\na\r\n".repeat(MIB / 2),
        },
      ),
    ),
    answers: "read",
    memory: ["256 MiB", "image"],
  },
  ...(
    [
      ["[", fillBody("", "[")],
      ["\\u0000", creates("\\u0000")],
      ["DEL", creates("\u007f")],
      ["U+2028", creates("\u2028")],
      ["lone surrogates", creates("\\ud800")],
      ["many members", fillBody('{"id":', '1,"a":')],
    ] as const
  ).map(
    ([what, send]): Attack => ({
      name: `64 bodies of 1 MiB of ${what}`,
      by: "a write token",
      connections: 64,
      send,
      answers: "read",
    }),
  ),
  {
    name: "small creates, answers never read",
    by: "a write token",
    connections: 400,
    ahead: 1000,
    send: ({ writer }, count) => create(writer, `{"id":${FIRST_ID + count},"name":"a"}`),
    answers: "never read",
  },
];

const STRANGERS: readonly Attack[] = [
  {
    name: "silent connections on all places",
    by: "no token",
    connections: 3400,
    send: () => Buffer.alloc(0),
    answers: "read",
  },
  {
    name: "unfinished heads on all places",
    by: "no token",
    connections: 3400,
    send: same(() => unknown(LONG_PATH).subarray(0, -2)),
    answers: "read",
  },
  {
    name: "requests without a token",
    by: "no token",
    connections: 64,
    send: same(() => unknown("/")),
    answers: "read",
    logShareMax: 1,
  },
  {
    name: "requests without a token for paths of 16 KiB",
    by: "no token",
    connections: 64,
    send: same(() => unknown(LONG_PATH)),
    answers: "read",
    logShareMax: 1,
  },
  {
    name: "requests without a token, answers never read",
    by: "no token",
    connections: 1000,
    ahead: 1000,
    send: same(() => unknown("/")),
    answers: "never read",
    logShareMax: 1,
  },
  {
    name: "unfinished TLS hellos of 120 KB",
    by: "no token",
    connections: 1500,
    send: same(unfinishedHello),
    answers: "read",
    isTls: true,
    memory: ["heap of 256 MB", "256 MiB"],
  },
];

const LOCALS: readonly Attack[] = [
  {
    name: "/metrics of the admin listener",
    by: "a local user",
    connections: 20,
    ahead: 1600,
    send: asks("/metrics"),
    answers: "read",
  },
  {
    name: "/status.json of the admin listener, answers never read",
    by: "a local user",
    connections: 20,
    ahead: 1600,
    send: asks("/status.json"),
    answers: "never read",
  },
  {
    name: "/openapi.json of the admin listener, answers never read",
    by: "a local user",
    connections: 40,
    ahead: 1500,
    send: asks("/openapi.json"),
    answers: "never read",
  },
  {
    name: "silent connections to the admin listener",
    by: "a local user",
    connections: 130,
    send: () => Buffer.alloc(0),
    answers: "read",
  },
  {
    name: "connections to the admin listener that are silent after one answer",
    by: "a local user",
    connections: 130,
    send: asks("/livez"),
    answers: "never read",
  },
  {
    name: "a page of another site asks the admin listener",
    by: "a local user",
    connections: 6,
    send: asks("/metrics", "Sec-Fetch-Site: cross-site\r\n"),
    answers: "read",
    forbidden: [200],
  },
];

export const ATTACKS: readonly Attack[] = [...READS, ...WRITES, ...STRANGERS, ...LOCALS];
