/** Bytes that are not a request, heads, and the framing of bodies: what is refused closes, and nothing after it is carried out. */
import { type Case, create, EMBEDDER, skipped, X, Y } from "./case.ts";

const SIZE = X.replace("<1>", "1234567").length.toString(16);

/** A create that must not be carried out. */
const NEXT = create(Y);

/** Rows of one packet: a fault, then a good create. */
function refusals(faults: readonly string[]): Case[] {
  return faults.map((fault) => ({
    says: `${JSON.stringify(fault).slice(0, 100)} is no request`,
    send: [fault, NEXT],
    how: "pipelined",
    gets: 40001,
    closes: true,
  }));
}

const GARBAGE = [
  "garbage\r\n\r\n",
  " POST /plants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST /plants HTTP/1.1\nHost: x\n\n",
  "POST /plants HTTP/1.1\r\n Host: x\r\n\r\n",
  "GET /plants\r\n\r\n",
  "\0\0\0\0\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "GET\r\n\r\n",
  "BREW /plants HTTP/1.1\r\nHost: x\r\n\r\n",
  "post /plants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST\t/plants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST /pl ants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST plants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST /pl\0ants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST /plants HTTP/1.2\r\nHost: x\r\n\r\n",
  "POST /plants HTTP/2.0\r\nHost: x\r\n\r\n",
  "POST /plants HTTP/0.9\r\nHost: x\r\n\r\n",
  "POST /plants HTTP/11\r\nHost: x\r\n\r\n",
  "POST /plants http/1.1\r\nHost: x\r\n\r\n",
  "POST /plants JSON/1.1\r\nHost: x\r\n\r\n",
];

const HEAD =
  "POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer <write>\r\nContent-Type: application/json\r\n";

const BAD_HEADERS = [
  "X Y: 1",
  "X : 1",
  ": 1",
  "X",
  "\xe9: 1",
  "X: a\0b",
  "X: a\x01b",
  "X: a\rb",
  "X: a\r\n folded",
  "Content-Length: -1",
  "Content-Length: +25",
  "Content-Length: 0x19",
  "Content-Length: 25, 25",
  "Content-Length: 2 5",
  "Content-Length: ",
  "Content-Length: many",
  "Content-Length: 99999999999999999999",
  "Content-Length: 25\r\nContent-Length: 25",
  "Content-Length: 25\r\nContent-Length: 26",
  "Content-Length: 25\r\nTransfer-Encoding: chunked",
  "Transfer-Encoding: chunked\r\nContent-Length: 25",
  "Transfer-Encoding: identity",
  "Transfer-Encoding: gzip",
  "Transfer-Encoding: chunked, gzip",
  "Transfer-Encoding: chunked, chunked",
  "Transfer-Encoding: xchunked",
  "Transfer-Encoding: gzip, chunked",
  "Transfer-Encoding: identity, chunked",
  "Transfer-Encoding: ",
  "Transfer-Encoding: chunked,",
  "Transfer-Encoding: ,chunked",
  "Transfer-Encoding: chunked;q=1",
  'Transfer-Encoding: "chunked"',
  "Transfer-Encoding: chunked\x0b",
  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
];

const BAD_CHUNKS = [
  `zz\r\n${X}\r\n0\r\n\r\n`,
  `-${SIZE}\r\n${X}\r\n0\r\n\r\n`,
  `0x${SIZE}\r\n${X}\r\n0\r\n\r\n`,
  `${SIZE} \r\n${X}\r\n0\r\n\r\n`,
  `${SIZE};\r\n${X}\r\n0\r\n\r\n`,
  `${SIZE};a\n${X}\r\n0\r\n\r\n`,
  ` ${SIZE}\r\n${X}\r\n0\r\n\r\n`,
  `\r\n${X}\r\n0\r\n\r\n`,
  `;a=b\r\n${X}\r\n0\r\n\r\n`,
  `FFFFFFFFFFFFFFFFF\r\n${X}\r\n0\r\n\r\n`,
  `${SIZE}\n${X}\r\n0\r\n\r\n`,
  `${SIZE}\r\n${X}\n0\r\n\r\n`,
  `${SIZE}\r\n${X}x\r\n0\r\n\r\n`,
  `${SIZE}\r\n${X}\r\n0\r\nX Y: 1\r\n\r\n`,
];

const CHUNKED = { "Transfer-Encoding": "chunked" };

/** Everything that the chunked coding allows. */
const GOOD_CHUNKS: readonly [what: string, body: string][] = [
  ["a chunk extension", `${SIZE};name=value\r\n${X}\r\n0\r\n\r\n`],
  ["a quoted chunk extension", `${SIZE};name="a;b"\r\n${X}\r\n0\r\n\r\n`],
  ["leading zeros in a chunk size", `000${SIZE}\r\n${X}\r\n0\r\n\r\n`],
  ["a chunk size in upper case", `${SIZE.toUpperCase()}\r\n${X}\r\n0\r\n\r\n`],
  ["a long last chunk", `${SIZE}\r\n${X}\r\n0000\r\n\r\n`],
  ["trailers", `${SIZE}\r\n${X}\r\n0\r\nContent-Type: text/plain\r\nX: y\r\n\r\n`],
];

const GOOD_HOSTS = ["localhost", "plants.example:8080", "192.0.2.7", "[2001:db8::7]:80", ""];

const BAD_HOSTS: readonly (string | readonly string[] | undefined)[] = [
  undefined,
  ["localhost", "localhost"],
  ["localhost", "other.example"],
  "two words",
  "http://localhost",
  "localhost/plants",
  "localhost:port",
  "user@localhost",
  "b\xfccher.example",
  "[::1",
  "::1",
  "a#b",
  "a?b",
];

const LONG = "x".repeat(20 * 1024);
const FILLED = (count: number) => create(X, { a: Array<string>(count - 4).fill("") });

/** Characters of two, three and four bytes and an escape, so that some cuts fall inside them. */
const WIDE = Buffer.from('{"id":7777777,"name":"Gänse木🌱","tag":"\\ud800\\n"}');
const WIDE_LINE = '{"id":7777777,"name":"Gänse木🌱","tag":"\\ud800\\n"}';
const BYTES = Array.from(WIDE.keys());
const each = (bytes: Buffer) => Array.from(bytes, (byte) => Buffer.from([byte]));

function padded(bytes: number): string {
  return X.replace("}", "")
    .padEnd(bytes - 1 + "<1>".length - 7, " ")
    .concat("}");
}

/** The limit of bodies, by default and as an option. */
function limits(on: "plain" | "small", max: number): Case[] {
  const [exact, longer] = [padded(max), padded(max + 1)];
  const [first, second] = [padded(max).slice(0, 40), padded(max).slice(40)];
  const good = { on, gets: 200, stores: X } as const;
  const bad = { on, gets: 41301, closes: true } as const;
  return [
    { ...good, says: `${max} bytes with a length are accepted`, send: create(exact) },
    { ...good, says: `${max} bytes in a chunk are accepted`, send: { chunks: [exact] } },
    { ...good, says: `${max} bytes in two chunks are accepted`, send: { chunks: [first, second] } },
    {
      ...bad,
      says: `${max + 1} bytes with a length are 41301`,
      send: create(longer),
      closes: max > 65536,
    },
    { ...bad, says: `${max + 1} bytes in a chunk are 41301`, send: { chunks: [longer] } },
    {
      ...bad,
      says: "the byte too many in a chunk of its own is 41301",
      send: { chunks: [exact, " "] },
    },
    {
      ...bad,
      says: "chunks beyond the limit are refused before their end",
      send: { chunks: [longer] },
      lacks: 5,
    },
  ];
}

const HOSTS: readonly Case[] = BAD_HOSTS.flatMap((host): Case[] => [
  {
    says: `a create with the Host ${JSON.stringify(host)} is refused, and what follows it`,
    send: [create(X, { Host: host }), NEXT],
    how: "pipelined",
    gets: 40001,
    closes: true,
  },
  {
    says: `PUT with the Host ${JSON.stringify(host)} is refused`,
    send: { method: "PUT", headers: { Host: host } },
    gets: 40001,
    closes: true,
  },
  {
    says: `HEAD with the Host ${JSON.stringify(host)} is refused without a body`,
    send: { method: "HEAD", headers: { Host: host } },
    gets: 400,
    closes: true,
  },
]);

export const FRAMING: readonly Case[] = [
  ...skipped(EMBEDDER.parses, [
    ...refusals(GARBAGE),
    ...refusals(BAD_HEADERS.map((lines) => `${HEAD}${lines}\r\n\r\n${X}`)).map((row, at) => ({
      ...row,
      says: `${JSON.stringify(BAD_HEADERS[at])} is refused`,
    })),
    ...BAD_CHUNKS.map(
      (body): Case => ({
        says: `the chunks ${JSON.stringify(body)} are refused`,
        send: [{ headers: CHUNKED, body }, NEXT],
        how: "pipelined",
        gets: 40001,
        closes: true,
      }),
    ),
    {
      says: "a broken chunk that arrives late is refused, too",
      send: { headers: CHUNKED, body: `${SIZE}\r\n${X}\r\nno chunk size\r\n` },
      cut: 15,
      gets: 40001,
      closes: true,
    },
    ...["close", "keep-alive"].map(
      (connection): Case => ({
        says: `chunks in HTTP/1.0, which has none, are refused with Connection: ${connection}`,
        send: [{ version: "HTTP/1.0", headers: { Connection: connection }, chunks: [X] }, NEXT],
        how: "pipelined",
        gets: 40001,
        closes: true,
      }),
    ),
    ...(
      [
        ["a header of 20 KiB", create(X, { X: LONG })],
        ["a header name of 20 KiB", create(X, { [LONG]: "x" })],
        ["headers of 20 KiB together", create(X, { X: Array<string>(99).fill("x".repeat(200)) })],
        ["a request target of 20 KiB", { target: `/plants?${LONG}`, body: X }],
        ["a token of 20 KiB", create(X, { Authorization: `Bearer ${LONG}` })],
        ["trailers of 20 KiB", create(`${SIZE}\r\n${X}\r\n0\r\nX: ${LONG}\r\n\r\n`, CHUNKED)],
        ...[101, 102, 127, 128, 129, 150, 1000, 2500].map(
          (n) => [`${n} headers`, FILLED(n)] as const,
        ),
      ] as const
    ).map(
      ([what, send]): Case => ({
        says: `${what} are 43101, and nothing after them is carried out`,
        send: [send, NEXT],
        how: "pipelined",
        gets: 43101,
        closes: true,
      }),
    ),
    // Node drops the headers beyond its limit, so a request seems to lack the later ones: it is 43101 all the same.
    ...["Host", "Authorization", "Content-Type", "Content-Length"].flatMap((name): Case[] => {
      const value = {
        Host: "localhost",
        Authorization: "Bearer <write>",
        "Content-Type": "application/json",
      };
      const all: Record<string, string> = {
        ...value,
        "Content-Length": String(Number(`0x${SIZE}`)),
      };
      const fill = Array<string>(149).fill("");
      const late = { [name.toLowerCase()]: all[name] };
      const both: readonly [string, Record<string, string | string[] | undefined>][] = [
        ["only", { [name]: undefined, a: fill.slice(3), ...late }],
        ["second", { a: fill.slice(4), ...late }],
      ];
      return both
        .filter(([which]) => which === "only" || name !== "Content-Length")
        .map(([which, headers]) => ({
          says: `a request whose 150th header is the ${which} ${name} is 43101`,
          send: [create(X, headers), NEXT],
          how: "pipelined",
          gets: 43101,
          closes: true,
        }));
    }),
    {
      says: "chunk extensions of 20 KiB are 41301",
      send: create(`${SIZE};a=${LONG}\r\n${X}\r\n0\r\n\r\n`, CHUNKED),
      gets: 41301,
      closes: true,
    },
  ]),
  ...skipped(EMBEDDER.checksHost, HOSTS),
  ...GOOD_CHUNKS.map(([what, body]) => ({
    says: `a chunked body may have ${what}`,
    send: create(body, { "Transfer-Encoding": "Chunked" }),
    gets: 200,
    stores: X,
  })),
  ...GOOD_HOSTS.map((host) => ({
    says: `the Host "${host}" is accepted`,
    send: create(X, { Host: host }),
    gets: 200,
    stores: X,
  })),
  {
    says: "empty lines before a request are skipped",
    send: ["\r\n\r\n", create(X)],
    how: "pipelined",
    gets: 200,
    stores: X,
  },
  {
    says: "a header of 15 KiB is read",
    send: create(X, { X: LONG.slice(5120) }),
    gets: 200,
    stores: X,
  },
  {
    says: "a query of 15 KiB is read",
    send: { target: `/plants?${LONG.slice(5120)}`, body: X },
    gets: 200,
    stores: X,
  },
  { says: "100 headers are accepted", send: FILLED(100), gets: 200, stores: X },
  ...BYTES.slice(1).map((cut) => ({
    says: `a body may be cut into two packets, ${cut} bytes before its end`,
    send: create(WIDE),
    cut,
    gets: 200,
    stores: WIDE_LINE,
  })),
  ...BYTES.slice(1).map((cut) => ({
    says: `a body may be cut into two chunks, ${cut} bytes after its beginning`,
    send: { chunks: [WIDE.subarray(0, cut), WIDE.subarray(cut)] },
    gets: 200,
    stores: WIDE_LINE,
  })),
  {
    says: "a whole request may arrive byte by byte",
    send: create(WIDE),
    cut: "everywhere",
    gets: 200,
    stores: WIDE_LINE,
  },
  {
    says: "a request may arrive byte by byte, one byte a chunk",
    send: { chunks: each(WIDE) },
    cut: "everywhere",
    gets: 200,
    stores: WIDE_LINE,
  },
  ...limits("plain", 1_048_576),
  ...limits("small", 100),
  ...["1048577", "4294967296", "9007199254740993", "18446744073709551615"].map((length) => ({
    says: `a length of ${length} is refused before any of the body is there`,
    send: { headers: { "Content-Length": length } },
    gets: 41301,
    closes: true,
  })),
];
