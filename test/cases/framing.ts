/** Bytes that are not a request, heads, and the framing of bodies: what is refused closes, and nothing after it is carried out. */
import type { Ask, Case } from "./case.ts";
import { bad, CLOSES, closed, create, EMBEDDER, each, good, list, skipped, X } from "./case.ts";

const SIZE = X.replace("<1>", "1234567").length.toString(16);
const LONG = "x".repeat(20 * 1024);

const GARBAGE = [
  "garbage\r\n\r\n",
  " POST /plants HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST /plants HTTP/1.1\nHost: x\n\n",
  "GET /plants\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

const BAD_LINES = list(`
  BREW /plants HTTP/1.1 | post /plants HTTP/1.1 | POST /pl ants HTTP/1.1 | POST plants HTTP/1.1
  POST /plants HTTP/1.2 | POST /plants HTTP/2.0 | POST /plants HTTP/0.9 | POST /plants http/1.1`);

/** Header lines after the usual ones. */
const BAD_HEADERS = list(`
  X Y: 1 | X : 1 | : 1 | X | \xe9: 1 | X: a\0b | X: a\rb | X: a\r\n folded
  Content-Length: -1 | Content-Length: +25 | Content-Length: 0x19 | Content-Length: 25, 25
  Content-Length: many | Content-Length: 99999999999999999999
  Content-Length: 25\r\nContent-Length: 25 | Content-Length: 25\r\nTransfer-Encoding: chunked
  Transfer-Encoding: chunked\r\nContent-Length: 25 | Transfer-Encoding: gzip
  Transfer-Encoding: identity | Transfer-Encoding: chunked, gzip | Transfer-Encoding: xchunked
  Transfer-Encoding: gzip, chunked | Transfer-Encoding: chunked, | Transfer-Encoding: chunked;q=1
  Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked`);

const HEAD =
  "POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer <write>\r\nContent-Type: application/json\r\n";

const BAD_CHUNKS = [
  `zz\r\n${X}\r\n0\r\n\r\n`,
  `-${SIZE}\r\n${X}\r\n0\r\n\r\n`,
  `${SIZE} \r\n${X}\r\n0\r\n\r\n`,
  `${SIZE};a\n${X}\r\n0\r\n\r\n`,
  `\r\n${X}\r\n0\r\n\r\n`,
  `FFFFFFFFFFFFFFFFF\r\n${X}\r\n0\r\n\r\n`,
  `${SIZE}\n${X}\r\n0\r\n\r\n`,
  `${SIZE}\r\n${X}x\r\n0\r\n\r\n`,
  `${SIZE}\r\n${X}\r\n0\r\nX Y: 1\r\n\r\n`,
];

const CHUNKED = { "Transfer-Encoding": "chunked" };
const STAYS = { Connection: "keep-alive" };
const LATE = create(`${SIZE}\r\n${X}\r\nno chunk size\r\n`, CHUNKED);
const EXTENDED = create(`${SIZE};a=${LONG}\r\n${X}\r\n0\r\n\r\n`, CHUNKED);

/** What the chunked coding allows. */
const GOOD_CHUNKS: readonly [what: string, body: string][] = [
  ["a quoted chunk extension", `${SIZE};name="a;b"\r\n${X}\r\n0\r\n\r\n`],
  ["leading zeros in a chunk size", `000${SIZE}\r\n${X}\r\n0\r\n\r\n`],
  ["a long last chunk", `${SIZE.toUpperCase()}\r\n${X}\r\n0000\r\n\r\n`],
  ["trailers", `${SIZE}\r\n${X}\r\n0\r\nContent-Type: text/plain\r\nX: y\r\n\r\n`],
];

const BAD_HOSTS = list(`
  two words | http://localhost | localhost/plants | localhost:port | user@localhost
  b\xfccher.example | [::1 | ::1 | a#b | a?b`);

/** A create with this many headers. */
function filled(count: number): Ask {
  return create(X, { a: Array<string>(count - 4).fill("") });
}

/** Heads that are too large. Node drops the headers beyond its limit: a request may seem to lack the later ones. */
const TOO_LARGE: readonly [what: string, ask: Ask][] = [
  ["a header of 20 KiB", create(X, { X: LONG })],
  ["a header name of 20 KiB", create(X, { [LONG]: "x" })],
  ["headers of 20 KiB together", create(X, { X: Array<string>(99).fill("x".repeat(200)) })],
  ["a request target of 20 KiB", { target: `/plants?${LONG}`, body: X }],
  ["trailers of 20 KiB", create(`${SIZE}\r\n${X}\r\n0\r\nX: ${LONG}\r\n\r\n`, CHUNKED)],
  ["101 headers", filled(101)],
  ["2500 headers", filled(2500)],
  ["150 headers before a second Host", create(X, { a: Array<string>(150).fill(""), host: "b" })],
  [
    "150 headers before the length",
    create(X, {
      "Content-Length": undefined,
      a: Array<string>(150).fill(""),
      "content-length": `${Number(`0x${SIZE}`)}`,
    }),
  ],
];

/** Characters of two, three and four bytes and an escape, so that some cuts fall inside them. */
const LINE = '{"id":7777777,"name":"Gänse木🌱","tag":"\\ud800\\n"}';
const WIDE = Buffer.from(LINE);
const CUTS = Array.from(WIDE.keys()).slice(1);
const SINGLE = Array.from(WIDE, (byte) => Buffer.from([byte]));
const inTwo = (cut: number): Ask => ({ chunks: [WIDE.subarray(0, cut), WIDE.subarray(cut)] });

function padded(bytes: number): string {
  return `${X.slice(0, -1).padEnd(bytes - 5)}}`; // an id has four characters more than its word
}

/** The limit of bodies, by default and as an option. */
function limits(on: "plain" | "small", max: number): Case[] {
  const [exact, longer] = [padded(max), padded(max + 1)];
  const refused = { on, closes: true };
  const parts = { chunks: [exact.slice(0, 40), exact.slice(40)] };
  return [
    good(`${max} bytes with a length are accepted`, create(exact), { on }),
    good(`${max} bytes in two chunks are accepted`, parts, { on }),
    bad("a longer body is 41301", 41301, create(longer), { on, closes: max > 65536 }),
    bad(`${max + 1} bytes in a chunk are 41301`, 41301, { chunks: [longer] }, refused),
    bad("a byte too many in another chunk is 41301", 41301, { chunks: [exact, " "] }, refused),
    bad("it is before its end", 41301, { chunks: [longer] }, { ...refused, lacks: 5 }),
  ];
}

export const FRAMING: readonly Case[] = [
  ...skipped(EMBEDDER.parses, [
    ...[...GARBAGE, ...BAD_LINES.map((line) => `${line}\r\nHost: x\r\n\r\n`)].map((text) =>
      closed(`${JSON.stringify(text)} is no request`, 40001, text),
    ),
    ...BAD_HEADERS.map((lines) =>
      closed(`${JSON.stringify(lines)} is refused`, 40001, `${HEAD}${lines}\r\n\r\n${X}`),
    ),
    ...["Content-Length: ", "Transfer-Encoding: "].map((line) =>
      closed(`${line}without a value is refused`, 40001, `${HEAD}${line}\r\n\r\n${X}`),
    ),
    ...BAD_CHUNKS.map((body) =>
      closed(`the chunks ${JSON.stringify(body)} are refused`, 40001, create(body, CHUNKED)),
    ),
    bad("a broken chunk may arrive late", 40001, LATE, { cut: 15, closes: true }),
    closed("HTTP/1.0 has no chunks", 40001, { version: "HTTP/1.0", headers: STAYS, chunks: [X] }),
    ...TOO_LARGE.map(([what, ask]) => closed(`${what} are 43101`, 43101, ask)),
    bad("chunk extensions of 20 KiB are 41301", 41301, EXTENDED, CLOSES),
  ]),
  ...skipped(EMBEDDER.checksHost, [
    ...[undefined, ["localhost", "localhost"], ...BAD_HOSTS].map((host) =>
      closed(`a create with the Host ${host} is refused`, 40001, create(X, { Host: host })),
    ),
    bad("HEAD without a Host", 400, { method: "HEAD", headers: { Host: undefined } }, CLOSES),
  ]),
  ...GOOD_CHUNKS.map(([what, body]) =>
    good(`a chunked body may have ${what}`, create(body, { "Transfer-Encoding": "Chunked" })),
  ),
  ...each("Host", 200, ["plants.example:8080", "192.0.2.7", "[2001:db8::7]:80", ""]),
  good("empty lines before a request are skipped", ["\r\n\r\n", create(X)], { how: "pipelined" }),
  good("a header of 15 KiB is read", create(X, { X: LONG.slice(5120) })),
  good("a query of 15 KiB is read", { target: `/plants?${LONG.slice(5120)}`, body: X }),
  good("100 headers are accepted", filled(100)),
  ...CUTS.flatMap((cut) => [
    good(`a body in two packets, the last of ${cut} bytes`, create(WIDE), { cut, stores: LINE }),
    good(`a body in two chunks, the first of ${cut} bytes`, inTwo(cut), { stores: LINE }),
  ]),
  good("a request byte by byte", create(WIDE), { cut: "everywhere", stores: LINE }),
  good("the same in chunks of one byte", { chunks: SINGLE }, { cut: "everywhere", stores: LINE }),
  ...limits("plain", 1_048_576),
  ...limits("small", 100),
  ...["1048577", "18446744073709551615"].map((length) =>
    bad("a length is refused at once", 41301, create("", { "Content-Length": length }), CLOSES),
  ),
];
