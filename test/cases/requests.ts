/** Who may do what, on which path and with which headers; and which of several faults is responded. */
import { METHODS } from "node:http";
import type { Ask, Case } from "./case.ts";
import { bad, CLOSES, create, EMBEDDER, each, get, good, list, skipped, X, Y } from "./case.ts";

const NONE = { Authorization: undefined };

/** A create with this Authorization header. */
function by(authorization: string | readonly string[] | undefined): Ask {
  return create(X, { Authorization: authorization });
}

const NO_TOKENS = list("Bearer | Bearertoken | Basic dXNlcjpwYXNz | Basic <write> | <write>");

const BAD_TOKENS = list(`
  Bearer x | Bearer pst_ | Bearer <write>x | Bearer <write>= | Bearer <write> <write>
  Bearer <write>, Bearer <write> | Bearer "<write>" | Bearer <write>\xe9 | Bearer __proto__
  Bearer ${"x".repeat(10_000)}`);

const UNKNOWN = `Bearer pst_${"A".repeat(43)}`;
const READ_NEEDED = { headers: { "www-authenticate": /scope="read"$/ } };

const TWO_TOKENS = [
  ["Bearer <write>", "Bearer <write>"],
  ["Bearer <write>", ""],
  ["Basic dXNlcjpwYXNz", "Bearer <write>"],
];

const TRAILER = "0\r\nAuthorization: Bearer <write>\r\n\r\n";

const NOT_FROM: readonly [what: string, ask: Ask][] = [
  ["the query", { target: "/plants?access_token=<write>", headers: NONE, body: X }],
  ["a cookie", create(X, { ...NONE, Cookie: "access_token=<write>" })],
  ["a trailer", { headers: { ...NONE, "Transfer-Encoding": "chunked" }, body: TRAILER }],
  ["the target", { target: "http://bearer:<write>@localhost/plants", headers: NONE, body: X }],
];

const AUTH: readonly Case[] = [
  ...each("Authorization", 200, ["bearer <write>", "bEaReR <write>", "Bearer   <write>"]),
  good(
    "the name of a header may be in any case, with white space around its value",
    create(X, { ...NONE, aUTHORIZATION: " \t Bearer <write> \t " }),
  ),
  ...each("Authorization", 40101, [undefined, "", "Bearer\t<write>", ...NO_TOKENS]),
  ...NOT_FROM.map(([what, ask]) =>
    bad(`a token is not taken from ${what}`, 40101, ask, { closes: what === "a trailer" }),
  ),
  ...each("Authorization", 40102, [...BAD_TOKENS, ...TWO_TOKENS]),
  ...each("Authorization", 40102, ["Bearer <expired>", "Bearer <revoked>", UNKNOWN], {
    message: /^Authorization: expected a live token, got .* unknown, expired or revoked$/,
  }),
  bad("also if their names differ", 40102, create(X, { AUTHORIZATION: "Bearer <write>" })),
  good(
    "a token with both scopes creates and reads",
    [by("Bearer <both>"), get("/plants/<1>", { Authorization: "Bearer <both>" })],
    { gets: [200, 200], body: X },
  ),
  ...each("Authorization", 40301, ["Bearer <read>"], {
    headers: { "www-authenticate": /scope="write"$/ },
  }),
  ...["/plants", "/plants?limit=x", "/plants/99"].map((target) =>
    bad(`the scope write does not read ${target}`, 40301, { method: "GET", target }, READ_NEEDED),
  ),
  good(
    "after a wrong token a good one is accepted on the same connection",
    [by(undefined), create(X), by("Bearer x"), create(Y)],
    { cut: 3, gets: [40101, 200, 40102, 200], stores: [X, Y] },
  ),
];

const SECRETS: readonly [error: number, ask: Ask, skip?: Case["skip"]][] = [
  [40401, { target: "/<write>", body: X }],
  [40401, { target: "/%70st_<write>", body: X }],
  [40301, { target: "/plants?<write>", method: "GET" }],
  [41501, create(X, { "Content-Type": "<write>" })],
  [41502, create(X, { "Content-Encoding": "<write>" })],
  [40003, create("<write>")],
  [40005, create('{"id":"<write>","name":"x"}')],
  [40005, create('{"id":<1>,"name":"x","tag":["<write>"]}')],
  [40007, get("/plants?limit=<write>")],
  [41701, create(X, { Expect: "<write>" }), EMBEDDER.expects],
  [40001, create(X, { Host: "<write>/" }), EMBEDDER.checksHost],
  [40001, create(X, { "<write> ": "x" }), EMBEDDER.parses],
  [40001, create(X, { "Content-Length": "<write>" }), EMBEDDER.parses],
  [40001, { version: "<write>" }, EMBEDDER.parses],
  [40001, { method: "<write>" }, EMBEDDER.parses],
];

const JSON_TYPES = list(`
  Application/JSON | application/json;charset=utf-8 | application/json; charset="UTF-8"
  application/json \t;\tCharset=utf-8 | application/json; version=1 | application/json;
  application/json; profile="https://plants.example/a b"; charset=utf-8
  application/json; x="; charset=latin1" | application/json; x="\\"; charset=latin1"`);

const OTHER_TYPES = list(`
  text/plain | text/plain;application/json | application/jsonx | application/json-patch+json
  application/vnd.plant+json | application/* | application / json | application/json text/plain
  application/json, text/plain | application/json; charset=latin1 | application/json; charset=
  application/json; CHARSET="iso-8859-1" | application/json; charset=utf-8; charset=latin1
  application/json; charset | application/json; x="unclosed | application/json\u00a0
  application/json${";\u00a0".repeat(3000)}`);

const TWO_TYPES = [
  ["application/json", "application/json"],
  ['application/json; a="b', 'c"'],
];

const EXPECTS = { Expect: "100-continue" };
const EXPECT = { ...EXPECTS, "Content-Length": "25" };

/** Faults that are known before the body. */
const BEFORE_100: readonly [gets: number, ask: Ask][] = [
  [40101, { headers: NONE }],
  [40401, { target: "/nowhere" }],
  [40501, { method: "PUT" }],
  [41501, { headers: { "Content-Type": "text/plain" } }],
  [41301, { headers: { "Content-Length": "1048577" } }],
  [40001, { headers: { Host: ["a", "b"] } }],
];

const MEDIA: readonly Case[] = [
  ...each("Content-Type", 200, JSON_TYPES),
  ...each("Content-Type", 41501, [undefined, "", ...OTHER_TYPES, ...TWO_TYPES]),
  ...each("Content-Encoding", 200, ["Identity"]),
  ...each("Content-Encoding", 41502, ["gzip", "", "identity, gzip", ["identity", "gzip"]]),
  good(
    "Expect: 100-Continue is responded 100, then 200",
    [{ ...create(X, { Expect: "100-Continue" }), isHeadOnly: true }, X],
    { gets: [100, 200] },
  ),
  ...skipped(EMBEDDER.expects, [
    ...BEFORE_100.map(([gets, ask]) => {
      return bad("no 100 before", gets, { ...ask, headers: { ...EXPECT, ...ask.headers } }, CLOSES);
    }),
    ...each("Expect", 41701, ["200-ok", "100-continue, 200-ok", "x-100-continue"], CLOSES),
  ]),
  good("HTTP/1.0 gets no 100", { version: "HTTP/1.0", headers: EXPECTS, body: X }, CLOSES),
];

const UNKNOWN_PATHS = list(`
  / | /plants/ | /Plants | /plantsx | /plants/x | /plants/1/ | /plants;a=b | //plants | /./plants
  /x/../plants | /%70lants | /plants%20 | /plants%3Fx | /plants#x | /garden/plants | /__proto__
  /?/plants | * | http://localhost | http://localhost//plants | http://localhost/plants/
  http://localhost?/plants | ftp://localhost/plants`);

const KNOWN_TARGETS = list(`
  /plants? | /plants?/nowhere | /plants??#x | http://localhost/plants?x
  http://other.example:8080/plants | HTTPS://LOCALHOST/plants | http://[::1]:80/plants`);

/** Base paths: those that are below it, and those that only look so. */
const BASES: readonly [on: NonNullable<Case["on"]>, base: string, wrong: string][] = [
  ["garden", "/garden", "/Garden | /garde | /gardens | /xgarden | /garden/garden"],
  ["deep", "/a/b-c/~d", "/a/b-c/~D | /a/b-c | /a/b-c/~e"],
  ["plantsPath", "/plants", "/Plants"],
  ["escaped", "/%C3%A9", "/%c3%a9"],
  ["slash", "", "/"],
];

const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  "/plants": ["GET", "HEAD", "POST"],
  "/plants/7": ["GET", "HEAD"],
};

const ROUTING: readonly Case[] = [
  ...Object.entries(ALLOWED).flatMap(([target, allowed]) => {
    const others = METHODS.filter((method) => ![...allowed, "CONNECT"].includes(method));
    const headers = { allow: allowed.join(", ") };
    return others.map((method) =>
      bad(`no ${method} ${target}`, 40501, { method, target }, { headers }),
    );
  }),
  ...Object.entries({ "/plants": 403, "/plants/7": 403, "/nowhere": 404 }).map(([target, gets]) =>
    bad(`HEAD ${target} by a token that may not read is ${gets}`, gets, { method: "HEAD", target }),
  ),
  ...UNKNOWN_PATHS.flatMap((target) =>
    ["POST", "GET"].map((method) => bad(`${method} ${target} is 40401`, 40401, { target, method })),
  ),
  ...KNOWN_TARGETS.map((target) => good(`POST ${target} is a create`, { target, body: X })),
  ...BASES.flatMap(([on, base, wrong]): Case[] => {
    const others = [...list(wrong).map((path) => `${path}/plants`), `/x${base}/plants`];
    const absolute = { target: `http://localhost${base}/plants?x`, body: X };
    const both = [{ target: `${base}/plants`, body: X }, get(`${base}/plants/<1>`)];
    return [
      good(`a create in absolute form below "${base}"`, absolute, { on }),
      good(`a create and a read below "${base}"`, both, { on, gets: [200, 200], body: X }),
      ...[...others, `${base}/plants/`].map((target) =>
        bad(`${target} is not below the base path "${base}"`, 40401, { target, body: X }, { on }),
      ),
    ];
  }),
  bad("/plants is not below /garden", 40401, { target: "/plants", body: X }, { on: "garden" }),
];

type Fault = readonly [what: string, error: number, ask: Ask, skip?: NonNullable<Case["skip"]>];

/** In the order in which they are responded; what the embedder finds on `mounted` has its reason. */
const FAULTS: readonly Fault[] = [
  ["headers too large", 43101, { headers: { X: "x".repeat(20 * 1024) } }, EMBEDDER.parses],
  ["two hosts", 40001, { headers: { Host: ["a", "b"] } }, EMBEDDER.checksHost],
  ["no token", 40101, { headers: NONE }],
  ["a bad token", 40102, { headers: { Authorization: "Bearer x" } }],
  ["an unknown path", 40401, { target: "/nowhere" }],
  ["another method", 40501, { method: "PUT" }],
  ["a token without the scope", 40301, { headers: { Authorization: "Bearer <read>" } }],
  ["an unknown expectation", 41701, { headers: { Expect: "x" } }, EMBEDDER.expects],
  ["another content type", 41501, { headers: { "Content-Type": "text/plain" } }],
  ["a content coding", 41502, { headers: { "Content-Encoding": "gzip" } }],
  ["a length beyond the limit", 41301, { headers: { "Content-Length": "1048577" } }],
  ["bytes that are not UTF-8", 40002, { body: Buffer.from('{"id":"7","id":1,"x":\xff', "latin1") }],
  ["malformed JSON", 40003, { body: '{"id":"7","id":1,"x":' }],
  ["a member given twice", 40004, { body: '{"id":"7","id":1,"x":1}' }],
  ["no plant", 40005, { body: '{"id":"7"}' }],
];

/** A create with these faults; of two in one place the earlier. */
function faulty(faults: readonly Fault[], last = "fault"): Case {
  const [what, gets] = faults[0] as Fault;
  const asks = faults.map(([, , ask]) => ask).reverse();
  const headers = Object.assign({}, ...asks.map((ask) => ask.headers));
  const skip = Object.assign({}, ...faults.map(([, , , skip]) => skip));
  const closes = "Content-Length" in headers; // the rest of the announced body never comes
  const says = `${what} is responded before every later ${last}`;
  return bad(says, gets, { ...Object.assign({}, ...asks), headers }, { closes, skip });
}

/** Rows that hold whatever the store does: each fault with all later ones, and with those that are not the embedder's. */
export const ORDER: readonly Case[] = FAULTS.flatMap((fault, at) => {
  const later = FAULTS.slice(at);
  const own = later.filter(([, , , skip]) => skip === undefined);
  const isOther = own[0] === fault && own.length < later.length;
  return [faulty(later), ...(isOther ? [faulty(own, "fault of the listener")] : [])];
});

/** Ids of requests that are sent back, and those in whose place the server makes one. */
const SAFE_IDS = ["a", "a".repeat(64), "a.b_c~d+e/f=g:h@i-j"];
const UNSAFE_IDS = ["a".repeat(65), "", "a b", 'a"b', "<b>", "a\u0085b", ["a", "b"]];
const OURS = /^[0-9a-f]{12}-[1-9][0-9]*$/;

const LIST = "X-Forwarded-For";

/** Whom a trusted proxy names. */
const FORWARDED: readonly [what: string, list: string | readonly string[], client: string][] = [
  ["nothing", "", "127.0.0.1"],
  ["one address", "192.0.2.1", "192.0.2.1"],
  ["an address that the client put in front", "6.6.6.6, 192.0.2.1", "192.0.2.1"],
  ["further trusted proxies", "6.6.6.6, 192.0.2.1, 10.1.2.3,10.0.0.1", "192.0.2.1"],
  ["a client before an untrusted proxy", "192.0.2.1, 11.0.0.1, 10.0.0.1", "11.0.0.1"],
  ["trusted proxies alone", "10.1.2.3, 10.0.0.1", "10.1.2.3"],
  ["several lines", ["6.6.6.6", "192.0.2.1", "10.0.0.1"], "192.0.2.1"],
  ["an IPv4 address as IPv6", "::FFFF:192.0.2.1", "192.0.2.1"],
  ["a trusted proxy as IPv6", "192.0.2.1, ::ffff:10.0.0.1", "192.0.2.1"],
  ["a trusted proxy in IPv6", "192.0.2.1, fd00::7", "192.0.2.1"],
  ["no address before a trusted proxy", "6.6.6.6, garbage, 10.0.0.1", "10.0.0.1"],
  ["a port", "6.6.6.6, 192.0.2.1:4711", "127.0.0.1"],
  ["the interface of an address", "fe80::1%eth0", "fe80::1"],
  ["31 proxies", `192.0.2.1${", 10.0.0.1".repeat(31)}`, "192.0.2.1"],
  ["one proxy too many", `192.0.2.1${", 10.0.0.1".repeat(32)}`, "10.0.0.1"],
];

export const REQUESTS: readonly Case[] = [
  ...AUTH,
  ...SECRETS.map(([gets, send, skip = {}]) =>
    bad(`the message of ${gets} does not repeat a token`, gets, send, {
      closes: gets === 41701 || gets === 40001,
      skip,
    }),
  ),
  ...MEDIA,
  ...ROUTING,
  ...ORDER,
  ...SAFE_IDS.flatMap((id) => each("X-Request-Id", 200, [id], { headers: { "x-request-id": id } })),
  ...each("X-Request-Id", 200, UNSAFE_IDS, { headers: { "x-request-id": OURS } }),
  ...FORWARDED.map(([what, list, client]) =>
    good(`of ${what} it is ${client}`, create(X, { [LIST]: list }), { on: "proxied", client }),
  ),
  ...each(LIST, 200, ["6.6.6.6"], {
    client: "127.0.0.1",
    skip: { process: "the address is seen in the process of the server" },
  }),
];
