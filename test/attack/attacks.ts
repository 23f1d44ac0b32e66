/**
 * What one client may try against the others: each attack is a row of this table. `attacker.ts` carries one out in a
 * process of its own, and `one-client.attack.ts` checks what other clients notice.
 */
import { encodeRequest } from "../support/contract.ts";

/** What an attacker knows of the server. */
export interface Target {
  readonly port: number;
  readonly adminPort: number;
  /** A token with the scope `write`, and one with the scope `read`. */
  readonly writer: string;
  readonly reader: string;
}

export interface Attack {
  readonly name: string;
  readonly by: "a read token" | "a write token" | "no token" | "a local user";
  readonly connections: number;
  /** The bytes of the request with this number. */
  send(target: Target, count: number): Buffer;
  /** How many requests a connection sends before it has a response; default: 1. */
  readonly ahead?: number;
  /** What happens to the responses; each one that is "read" is followed by another request. */
  readonly responses: "read" | "read slowly" | "discarded" | "never read" | "not waited for";
  /** Whether the server speaks TLS. */
  readonly overTls?: boolean;
  /** Whether it makes a handshake, then changes the keys again and again instead of sending. */
  readonly changesKeys?: boolean;
}

const MIB = 2 ** 20;

/** The id of a plant that the server has, with a name that is 1 MiB long. */
export const LONG_ID = -1;
export const LONG_NAME = "a".repeat(MIB - 200);

/** The server has so many short plants, with the ids from 0 on. */
export const SHORT_PLANTS = 60_000;
/** The first id of plants that attackers create. */
const FIRST_ID = 2_000_000_000;

function read(token: string, target: string, headers = {}, method = "GET"): Buffer {
  const bodiless = { "Content-Type": undefined, "Content-Length": undefined, ...headers };
  return encodeRequest({ token }, { method, target, headers: bodiless });
}

const create = (token: string, body: string | Buffer) => encodeRequest({ token }, { body });

/** Makes the same bytes only once. */
function same(make: (target: Target) => Buffer): Attack["send"] {
  let bytes: Buffer | undefined;
  return (target) => {
    bytes ??= make(target);
    return bytes;
  };
}

/** These in turn. */
function inTurn(...sends: readonly Attack["send"][]): Attack["send"] {
  return (target, count) => sends[count % sends.length]?.(target, count) ?? Buffer.alloc(0);
}

/** A body of 1 MiB that begins so, and goes on with a text that repeats. */
const fill = (begin: string, text: string) =>
  same(({ writer }) => create(writer, (begin + text.repeat(MIB)).slice(0, MIB)));

const longTail = `,"name":"${LONG_NAME}"}`;

const inBytes = (token: string, method: string, headers = {}) =>
  encodeRequest(
    { token },
    {
      method,
      headers: { "Transfer-Encoding": "chunked", ...headers },
      body: "1\r\na\r\n".repeat(MIB / 2),
    },
  );

/** Bodies that stay unfinished: they take a budget to the last byte. */
const HALF_SENT = [
  ...Array<number>(63).fill(MIB - 300),
  ...Array.from({ length: 16 }, (_, at) => [2 ** (19 - at), 2 ** (19 - at)]).flat(),
];

const unknown = Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
const metrics = Buffer.from("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
const NDJSON = { Accept: "application/x-ndjson" };

const READS: readonly Attack[] = [
  {
    name: "GET and HEAD of a plant of 1 MiB, and HEAD of pages of 1,000 plants",
    by: "a read token",
    connections: 12,
    ahead: 10,
    send: inTurn(
      same(({ reader }) => read(reader, `/plants/${LONG_ID}`)),
      same(({ reader }) => read(reader, `/plants/${LONG_ID}`, {}, "HEAD")),
      same(({ reader }) => read(reader, "/plants?limit=1000", {}, "HEAD")),
    ),
    responses: "read",
  },
  {
    name: "reads of 1 MiB that nobody waits for",
    by: "a read token",
    connections: 16,
    ahead: 16,
    send: same(({ reader }) => read(reader, `/plants/${LONG_ID}`)),
    responses: "not waited for",
  },
  {
    name: "140 streams that are read slowly",
    by: "a read token",
    connections: 140,
    send: same(({ reader }) => read(reader, "/plants", NDJSON)),
    responses: "read slowly",
  },
  {
    name: "GET of 1 MiB, responses never read",
    by: "a read token",
    connections: 300,
    ahead: 10,
    send: same(({ reader }) => read(reader, `/plants/${LONG_ID}`)),
    responses: "never read",
  },
  {
    name: "reads with a body in chunks of one byte",
    by: "a read token",
    connections: 80,
    send: same(({ reader }) => inBytes(reader, "GET", NDJSON)),
    responses: "discarded",
  },
  {
    name: "pipelined reads and lists, 600 ahead",
    by: "a read token",
    connections: 8,
    ahead: 600,
    send: inTurn(
      same(({ reader }) => read(reader, "/plants/7")),
      same(({ reader }) => read(reader, "/plants")),
      same(({ reader }) => read(reader, `/plants?limit=${reader}`)),
    ),
    responses: "read",
  },
  {
    name: "CONNECT after pipelined requests",
    by: "a read token",
    connections: 64,
    send: same(({ reader }) =>
      Buffer.concat([
        ...Array.from({ length: 15 }, () => read(reader, "/plants?limit=1000")),
        read(reader, "a:1", {}, "CONNECT"),
      ]),
    ),
    responses: "discarded",
  },
];

const WRITES: readonly Attack[] = [
  {
    name: "creates of 1 MiB, responses never read",
    by: "a write token",
    connections: 200,
    send: ({ writer }, count) => create(writer, `{"id":${FIRST_ID + count}${longTail}`),
    responses: "never read",
  },
  {
    name: "half-sent bodies",
    by: "a write token",
    connections: HALF_SENT.length,
    send: ({ writer }, count) => {
      const request = create(writer, `{"id":1${longTail}`);
      const headBytes = request.indexOf("\r\n\r\n") + 4;
      return request.subarray(0, headBytes + (HALF_SENT[count % HALF_SENT.length] ?? 0));
    },
    responses: "read",
  },
  {
    name: "bodies in chunks of one byte, with a token and without",
    by: "a write token",
    connections: 64,
    send: inTurn(
      same(({ writer }) => inBytes(writer, "POST")),
      same(() => inBytes("none", "POST")),
    ),
    responses: "read",
  },
  {
    name: "bodies of 1 MiB of brackets and of many members",
    by: "a write token",
    connections: 64,
    send: inTurn(fill("", "["), fill('{"id":', '1,"a":')),
    responses: "read",
  },
  {
    name: "small creates, 1,000 ahead",
    by: "a write token",
    connections: 400,
    ahead: 1000,
    send: ({ writer }, count) => create(writer, `{"id":${FIRST_ID + count},"name":"a"}`),
    responses: "never read",
  },
];

const STRANGERS: readonly Attack[] = [
  {
    name: "silent connections on all places",
    by: "no token",
    connections: 3400,
    send: () => Buffer.alloc(0),
    responses: "read",
    overTls: true,
  },
  {
    name: "requests without a token, responses never read",
    by: "no token",
    connections: 1000,
    ahead: 1000,
    send: () => unknown,
    responses: "never read",
  },
  {
    name: "new TLS keys, again and again",
    by: "no token",
    connections: 1,
    send: () => Buffer.alloc(0),
    responses: "read",
    overTls: true,
    changesKeys: true,
  },
  {
    name: "pipelined /metrics of the admin listener, and bodies that nobody reads",
    by: "a local user",
    connections: 28,
    send: inTurn(
      same(() => Buffer.concat(Array<Buffer>(1600).fill(metrics))),
      same(() => inBytes("none", "GET")),
    ),
    responses: "discarded",
  },
];

export const ATTACKS: readonly Attack[] = [...READS, ...WRITES, ...STRANGERS];
