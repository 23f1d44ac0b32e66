/** What happens on one connection: requests in one packet, closes, other protocols, and how many may wait. */
import { type Ask, type Case, create, EMBEDDER, skipped, X, Y } from "./case.ts";

const CLOSE = { Connection: "close" };
const NO_TOKEN: Ask = { headers: { Authorization: undefined } };
const LAST = create('{"id":<3>,"name":"z"}', CLOSE);
const Z = '{"id":<3>,"name":"z"}';
const GARBAGE = "garbage\r\n\r\n";
/** Refused before its body arrives, with a response that closes the connection. */
const REFUSED: Ask = { headers: { Authorization: undefined }, chunks: ["{}"] };
const CONNECT: Ask = { method: "CONNECT", target: "plants.example:443" };
const OFFER = { Connection: "upgrade", Upgrade: "h2c" };

/** Whole requests in one packet, of which the last closes. */
const PIPELINES: readonly [
  says: string,
  send: readonly (Ask | string)[],
  gets: readonly number[],
  stores: readonly string[],
  skip?: Case["skip"],
  closes?: Case["closes"],
][] = [
  [
    "three creates in one packet are stored in order",
    [create(X), create(Y), LAST],
    [200, 200, 200],
    [X, Y, Z],
  ],
  ["a repeat waits for its create", [create(X), create(X), LAST], [200, 200, 200], [X, Z]],
  [
    "a conflict waits for its create",
    [create(X), create(X.replace("x", "y")), LAST],
    [200, 40006, 200],
    [X, Z],
  ],
  [
    "a refusal waits for the create before it",
    [create(X), { method: "PUT" }, LAST],
    [200, 40501, 200],
    [X, Z],
  ],
  [
    "nothing in the packet of a refused token is carried out",
    [create(X, { Authorization: "Bearer x" }), LAST],
    [40102],
    [],
    EMBEDDER.readsOn,
    "unannounced",
  ],
  [
    "nothing after a refused token without a body is",
    [{ ...NO_TOKEN, method: "GET" }, LAST],
    [40101],
    [],
    EMBEDDER.readsOn,
    "unannounced",
  ],
  [
    "nothing after a good one and a refused one is",
    [create(X), NO_TOKEN, create(Y), LAST],
    [200, 40101],
    [X],
    EMBEDDER.readsOn,
    "unannounced",
  ],
  [
    "garbage after a refused token gets no response",
    [NO_TOKEN, create(Y), GARBAGE],
    [40101],
    [],
    EMBEDDER.readsOn,
    "unannounced",
  ],
  ["a create may follow an unknown path", [{ target: "/", body: X }, LAST], [40401, 200], [Z]],
  ["a create may follow a bad body", [create("{"), LAST], [40003, 200], [Z]],
  ["a create may follow a request without a body", [{ method: "DELETE" }, LAST], [40501, 200], [Z]],
  [
    "garbage after a create is refused after its response",
    [create(X), GARBAGE, LAST],
    [200, 40001],
    [X],
    EMBEDDER.parses,
  ],
  [
    "nothing after a bad Host is carried out",
    [create(X, { Host: "a b" }), LAST],
    [40001],
    [],
    EMBEDDER.checksHost,
  ],
  [
    "nothing after Connection: close is",
    [create(X, CLOSE), create(Y)],
    [200],
    [X],
    EMBEDDER.readsOn,
  ],
  [
    "a create may follow an option that only resembles close",
    [create(X, { Connection: "x-close" }), LAST],
    [200, 200],
    [X, Z],
  ],
  [
    "garbage after Connection: close gets no response",
    [create(X, CLOSE), GARBAGE],
    [200],
    [X],
    EMBEDDER.readsOn,
  ],
  [
    "nothing after HTTP/1.0 is carried out",
    [{ version: "HTTP/1.0", body: X }, create(Y)],
    [200],
    [X],
    EMBEDDER.readsOn,
  ],
  [
    "nothing after a refusal within a body is",
    [create(X), REFUSED, create(Y), LAST],
    [200, 40101],
    [X],
  ],
  [
    "an offer after a refusal within a body is not read",
    [create(X), REFUSED, create(Y, OFFER), LAST],
    [200, 40101],
    [X],
  ],
  [
    "CONNECT after a refusal within a body gets no response",
    [create(X), REFUSED, create(Y), CONNECT, LAST],
    [200, 40101],
    [X],
  ],
  [
    "nothing after a refusal instead of 100 is carried out",
    [{ target: "/", headers: { Expect: "100-continue", "Content-Length": "0" } }, LAST],
    [40401],
    [],
    EMBEDDER.expects,
  ],
  [
    "nothing after an offer of another protocol is carried out",
    [create(X, OFFER), create(Y)],
    [200],
    [X],
  ],
  [
    "half a request after an offer is not read",
    [create(X, OFFER), "POST /plants HTTP/1.1\r\nX: "],
    [200],
    [X],
  ],
];

const SIXTEEN = Array.from({ length: 16 }, (): Ask => ({ method: "PUT" }));

export const CONNECTIONS: readonly Case[] = [
  ...PIPELINES.map(([says, send, gets, stores, skip = {}, closes = true]) => ({
    says,
    send,
    how: "pipelined" as const,
    gets,
    stores,
    closes,
    skip,
  })),
  ...["plants.example:443", "/plants"].map((target) => ({
    says: `CONNECT ${target} is closed without a response, and nothing after it is carried out`,
    send: [{ method: "CONNECT", target }, LAST],
    how: "pipelined" as const,
    gets: [],
    closes: true,
  })),
  {
    says: "CONNECT after Connection: close gets no response",
    send: [LAST, CONNECT],
    how: "pipelined",
    gets: 200,
    stores: Z,
    closes: true,
    skip: EMBEDDER.readsOn,
  },
  {
    says: "sixteen requests may wait on a connection",
    send: SIXTEEN,
    how: "pipelined",
    gets: SIXTEEN.map(() => 40501),
  },
  {
    says: "the seventeenth gets 50301 in its place, and the connection closes",
    send: [create(X), ...SIXTEEN.slice(1), create(Y), LAST],
    how: "pipelined",
    gets: [200, ...SIXTEEN.slice(1).map(() => 40501), 50301],
    stores: X,
    closes: true,
    skip: { mounted: "a connection of the embedder's server has no such limit" },
  },
  ...[undefined, "close", "keep-alive"].map((connection) => ({
    says: `HTTP/1.0 needs no Host, and with Connection: ${connection} stays open only on request`,
    send: { version: "HTTP/1.0", headers: { Host: undefined, Connection: connection }, body: X },
    gets: 200,
    stores: X,
    closes: connection !== "keep-alive",
  })),
  {
    says: "a refused request of HTTP/1.0 closes",
    send: { version: "HTTP/1.0", ...NO_TOKEN },
    gets: 40101,
    closes: true,
  },
  ...["h2c", "websocket", "TLS/1.0", "x/1, y/2"].flatMap((upgrade) => {
    const headers = { Connection: "Upgrade, HTTP2-Settings", Upgrade: upgrade };
    return [
      {
        says: `a create that offers ${upgrade} is stored, and closes`,
        send: create(X, headers),
        gets: 200,
        stores: X,
        closes: true,
      },
      {
        says: `a refused request that offers ${upgrade} closes`,
        send: { method: "PUT", headers },
        gets: 40501,
        closes: true,
      },
    ];
  }),
  ...[undefined, "keep-alive"].map((connection) => ({
    says: `an Upgrade that Connection: ${connection} does not name keeps the connection open`,
    send: create(X, { Connection: connection, Upgrade: "h2c" }),
    gets: 200,
    headers: { connection: "keep-alive" },
    stores: X,
  })),
  ...[
    { what: "a request in the next packet", late: create(Y) },
    { what: "half a request", late: "POST /plants HTTP/1.1\r\nHost: x\r\n" },
  ].map(({ what, late }) => ({
    says: `after an offer of another protocol ${what} is not carried out`,
    send: [create(X, OFFER), late],
    gets: 200,
    stores: X,
    closes: true,
  })),
  ...skipped(EMBEDDER.parses, [
    ...(
      [
        ["half a method", "PO"],
        ["half a head", "POST /plants HTTP/1.1\r\nHost"],
        ["a head without its body", { ...create(X, { "Content-Length": "25" }), isHeadOnly: true }],
        ["a chunk without the last one", create("2\r\n{}\r\n", { "Transfer-Encoding": "chunked" })],
      ] as const
    ).map(([what, send]) => ({
      says: `a client that closes its side after ${what} gets 40001`,
      send,
      how: "pipelined" as const,
      gets: 40001,
      ends: true,
      closes: true,
    })),
    {
      says: "a client that closes its side within a second request gets the first response and 40001",
      send: [create(X), create(Y)],
      how: "pipelined",
      lacks: 1,
      ends: true,
      gets: [200, 40001],
      stores: X,
      closes: true,
    },
  ]),
  {
    says: "a body in 1,024 chunks of one byte is stored",
    send: { chunks: [...X.replace("<1>", "7000001").padEnd(1024)] },
    gets: 200,
    stores: '{"id":7000001,"name":"x"}',
  },
];
