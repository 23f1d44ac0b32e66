/** What happens on one connection: requests in one packet, closes, other protocols, and how many may wait. */
import { type Ask, bad, type Case, CLOSES, create, EMBEDDER, good, skipped, X, Y } from "./case.ts";

const CLOSE = { Connection: "close" };
const NO_TOKEN: Ask = { headers: { Authorization: undefined } };
const Z = '{"id":<3>,"name":"z"}';
const LAST = create(Z, CLOSE);
const CONFLICT = create(X.replace("x", "y"));
const GARBAGE = "garbage\r\n\r\n";
/** Refused before its body arrives, with a response that closes the connection. */
const REFUSED: Ask = { headers: { Authorization: undefined }, chunks: ["{}"] };
const CONNECT: Ask = { method: "CONNECT", target: "plants.example:443" };
const OFFER = { Connection: "upgrade", Upgrade: "h2c" };
const EXPECT = { Expect: "100-continue", "Content-Length": "0" };
const HALF = "POST /plants HTTP/1.1\r\nX: ";

type Sends = readonly (Ask | string)[];

/** Requests in one packet, of which the last that is carried out closes. */
function packet(says: string, send: Sends, gets: readonly number[], ...stores: string[]): Case {
  return { says, send, how: "pipelined", gets, stores, closes: true };
}

const IN_ONE_PACKET: readonly Case[] = [
  packet("creates are stored in order", [create(X), create(Y), LAST], [200, 200, 200], X, Y, Z),
  packet("a repeat waits for its create", [create(X), create(X), LAST], [200, 200, 200], X, Z),
  packet("a conflict waits", [create(X), CONFLICT, LAST], [200, 40006, 200], X, Z),
  packet("a refusal waits", [create(X), { method: "PUT" }, LAST], [200, 40501, 200], X, Z),
  packet("a create may follow an unknown path", [{ target: "/", body: X }, LAST], [40401, 200], Z),
  packet("a create may follow a bad body", [create("{"), LAST], [40003, 200], Z),
  packet("a create may follow a DELETE", [{ method: "DELETE" }, LAST], [40501, 200], Z),
  packet("x-close is not close", [create(X, { Connection: "x-close" }), LAST], [200, 200], X, Z),
  ...[create(Y), create(Y, OFFER), CONNECT].map((next) =>
    packet("nothing after a refusal in a body", [create(X), REFUSED, next, LAST], [200, 40101], X),
  ),
  packet("nothing after an offer is carried out", [create(X, OFFER), create(Y)], [200], X),
  packet("half a request after an offer is not read", [create(X, OFFER), HALF], [200], X),
  packet("CONNECT is closed without a response", [CONNECT, LAST], []),
  ...skipped(EMBEDDER.readsOn, [
    ...[
      packet("nothing after a token that is refused", [by("Bearer x"), LAST], [40102]),
      packet("nothing after no token", [{ ...NO_TOKEN, method: "GET" }, LAST], [40101]),
      packet("nor after a good one", [create(X), NO_TOKEN, create(Y), LAST], [200, 40101], X),
      packet("garbage after a refused token", [NO_TOKEN, create(Y), GARBAGE], [40101]),
    ].map((row) => ({ ...row, closes: "unannounced" as const })),
    packet("nothing after Connection: close", [create(X, CLOSE), create(Y)], [200], X),
    packet("garbage after Connection: close", [create(X, CLOSE), GARBAGE], [200], X),
    packet("CONNECT after Connection: close", [LAST, CONNECT], [200], Z),
    packet("nothing after HTTP/1.0", [{ version: "HTTP/1.0", body: X }, create(Y)], [200], X),
  ]),
  ...skipped(EMBEDDER.parses, [
    packet("garbage after a create is refused", [create(X), GARBAGE, LAST], [200, 40001], X),
  ]),
  ...skipped(EMBEDDER.expects, [
    packet(
      "nothing after a refusal instead of 100",
      [{ target: "/", headers: EXPECT }, LAST],
      [40401],
    ),
  ]),
];

function by(authorization: string): Ask {
  return create(X, { Authorization: authorization });
}

/** What a client sends before it closes its side. */
const HALVES: readonly [what: string, send: Ask | string][] = [
  ["half a method", "PO"],
  ["half a head", HALF],
  ["a head without its body", { ...create(X, { "Content-Length": "25" }), isHeadOnly: true }],
  ["a chunk without the last one", create("2\r\n{}\r\n", { "Transfer-Encoding": "chunked" })],
];

const SIXTEEN = Array.from({ length: 16 }, (): Ask => ({ method: "PUT" }));
const SIXTEEN_REFUSED = SIXTEEN.map(() => 40501);

export const CONNECTIONS: readonly Case[] = [
  ...IN_ONE_PACKET.map((row) => ({ ...row, says: `in one packet: ${row.says}` })),
  { says: "sixteen requests may wait", send: SIXTEEN, how: "pipelined", gets: SIXTEEN_REFUSED },
  good(
    "the seventeenth gets 50301 in its place, and the connection closes",
    [create(X), ...SIXTEEN.slice(1), create(Y), LAST],
    {
      how: "pipelined",
      gets: [200, ...SIXTEEN_REFUSED.slice(1), 50301],
      closes: true,
      skip: { mounted: "a connection of the embedder's server has no such limit" },
    },
  ),
  ...[undefined, "keep-alive"].map((connection) =>
    good(
      `HTTP/1.0 needs no Host, and with Connection: ${connection} stays open only on request`,
      { version: "HTTP/1.0", headers: { Host: undefined, Connection: connection }, body: X },
      { closes: connection === undefined },
    ),
  ),
  bad("a refused HTTP/1.0 closes", 40101, { version: "HTTP/1.0", ...NO_TOKEN }, CLOSES),
  ...["h2c", "websocket", "x/1, y/2"].map((upgrade) =>
    good(
      `a create that offers ${upgrade} is stored, and closes`,
      create(X, { Connection: "Upgrade, HTTP2-Settings", Upgrade: upgrade }),
      CLOSES,
    ),
  ),
  bad("a refused offer closes", 40501, { method: "PUT", headers: OFFER }, CLOSES),
  good(
    "an Upgrade that Connection does not name keeps the connection open",
    create(X, { Connection: "keep-alive", Upgrade: "h2c" }),
    { headers: { connection: "keep-alive" } },
  ),
  ...[create(Y), HALF].map((late) =>
    good("nothing later than an offer is carried out", [create(X, OFFER), late], CLOSES),
  ),
  ...skipped(EMBEDDER.parses, [
    ...HALVES.map(([what, send]) =>
      bad(`a client that closes its side after ${what} gets 40001`, 40001, send, {
        how: "pipelined",
        ends: true,
        closes: true,
      }),
    ),
    good(
      "a client that closes its side within a second request gets the first response and 40001",
      [create(X), create(Y)],
      { how: "pipelined", lacks: 1, ends: true, gets: [200, 40001], closes: true },
    ),
    good(
      "a client that closes its side within a body that is refused gets the response before it",
      [create(X), { method: "PUT", headers: { "Content-Length": "10" } }],
      { how: "pipelined", ends: true, gets: [200, 40501], closes: "unannounced", stores: X },
    ),
  ]),
  good("a body with a length may come in any pieces", create(X.padEnd(1100)), {
    cut: "everywhere",
    stores: X,
  }),
  bad("8,193 pieces are 41301", 41301, { chunks: Array<string>(8193).fill(" ") }, CLOSES),
];
