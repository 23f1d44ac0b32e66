/** Who may do what, on which path and with which headers; and which of several faults is responded. */
import { METHODS } from "node:http";
import { type Ask, type Case, create, EMBEDDER, get, naming, skipped, X, Y } from "./case.ts";

const NONE = { Authorization: undefined };

/** A create with this Authorization header. */
function by(authorization: string | readonly string[] | undefined): Ask {
  return create(X, { Authorization: authorization });
}

const WITHOUT_TOKEN = [
  undefined,
  "",
  "Bearer",
  "Bearer ",
  "Basic dXNlcjpwYXNz",
  "Digest username=x",
  "Bearertoken",
  "Token <write>",
  "<write>",
  "Basic <write>",
  "Bearer\t<write>",
];

const BAD_TOKENS = [
  "Bearer x",
  "Bearer pst_",
  "Bearer pst_…".replace("…", "\xe2\x80\xa6"),
  "Bearer <write>x",
  "Bearer x<write>",
  "Bearer <write>=",
  "Bearer <write> <write>",
  "Bearer <write>, Bearer <write>",
  "Bearer <write>,",
  "Bearer <write>;",
  'Bearer "<write>"',
  "Bearer <write>\xe9",
  "Bearer __proto__",
  "Bearer ../tokens.jsonl",
  `Bearer ${"x".repeat(10_000)}`,
];

const TWO_TOKENS = [
  ["Bearer <write>", "Bearer <write>"],
  ["Bearer <write>", "Bearer x"],
  ["Bearer x", "Bearer <write>"],
  ["Bearer <write>", ""],
  ["", "Bearer <write>"],
  ["Basic dXNlcjpwYXNz", "Bearer <write>"],
];

const TRAILER = "0\r\nAuthorization: Bearer <write>\r\n\r\n";

const NOT_FROM: readonly [what: string, ask: Ask][] = [
  ["the query", { target: "/plants?access_token=<write>", headers: NONE, body: X }],
  ["the body", create('{"id":<1>,"name":"x","access_token":"<write>"}', NONE)],
  ["a cookie", create(X, { ...NONE, Cookie: "access_token=<write>" })],
  ["another header", create(X, { ...NONE, "Proxy-Authorization": "Bearer <write>" })],
  ["a trailer", { headers: { ...NONE, "Transfer-Encoding": "chunked" }, body: TRAILER }],
  ["the target", { target: "http://bearer:<write>@localhost/plants", headers: NONE, body: X }],
];

const AUTH: readonly Case[] = [
  ...["Bearer", "bearer", "BEARER", "bEaReR", "Bearer   "].map((scheme) => ({
    says: `the scheme may be written "${scheme}"`,
    send: by(`${scheme} <write>`),
    gets: 200,
    stores: X,
  })),
  {
    says: "the name of a header may be in any case, with white space around its value",
    send: create(X, { ...NONE, aUTHORIZATION: " \t Bearer <write> \t " }),
    gets: 200,
    stores: X,
  },
  ...WITHOUT_TOKEN.map((value) => ({
    says: `Authorization: ${JSON.stringify(value)} is no token: a bare challenge`,
    send: by(value),
    gets: 40101,
  })),
  ...NOT_FROM.map(([what, send]) => ({
    says: `a token is not taken from ${what}`,
    send,
    gets: 40101,
    closes: what === "a trailer",
  })),
  ...BAD_TOKENS.map((value) => ({
    says: `Authorization: ${value.slice(0, 40)} is a bad token`,
    send: by(value),
    gets: 40102,
  })),
  ...["Bearer <expired>", "Bearer <revoked>", `Bearer pst_${"A".repeat(43)}`].map((value) => ({
    says: `the response to ${value.slice(0, 20)} does not tell unknown, expired and revoked apart`,
    send: by(value),
    gets: 40102,
    message: /^Authorization: expected a live token, got one that is unknown, expired or revoked$/,
  })),
  ...TWO_TOKENS.map((values) => ({
    says: `two Authorization headers are 40102: ${values.join(" and ")}`,
    send: by(values),
    gets: 40102,
  })),
  {
    says: "two Authorization headers are 40102 in any case",
    send: create(X, { AUTHORIZATION: "Bearer <write>" }),
    gets: 40102,
  },
  {
    says: "a token with both scopes creates and reads",
    send: [by("Bearer <both>"), get("/plants/<1>", { Authorization: "Bearer <both>" })],
    gets: [200, 200],
    body: X,
    stores: X,
  },
  {
    says: "a token without the scope write does not create",
    send: by("Bearer <read>"),
    gets: 40301,
    headers: { "www-authenticate": /scope="write"$/ },
  },
  ...["/plants", "/plants?limit=x", "/plants/7", "/plants/99"].flatMap((target) =>
    ["*/*", "application/x-ndjson"].map((accept) => ({
      says: `a token without the scope read does not get ${target} as ${accept}`,
      send: get(target, { Authorization: "Bearer <write>", Accept: accept }),
      gets: 40301,
      headers: { "www-authenticate": /scope="read"$/ },
    })),
  ),
  {
    says: "after a wrong token a good one is accepted on the same connection",
    cut: 3,
    send: [by(undefined), create(X), by("Bearer x"), create(Y)],
    gets: [40101, 200, 40102, 200],
    stores: [X, Y],
  },
];

/** No message repeats a token, wherever it is sent: the runner looks. */
const SECRETS: readonly Case[] = [
  ...(
    [
      [40401, { target: "/<write>", body: X }],
      [40401, { target: "/%70st_<write>", body: X }],
      [40301, { target: "/plants?<write>", method: "GET" }],
      [41501, create(X, { "Content-Type": "<write>" })],
      [41502, create(X, { "Content-Encoding": "<write>" })],
      [40003, create("<write>")],
      [40005, create('{"id":"<write>","name":"x"}')],
      [40005, create('{"id":<1>,"name":"x","tag":["<write>"]}')],
      [40007, get("/plants?limit=<write>")],
    ] as const
  ).map(([gets, send]) => ({
    says: `the message of ${gets} does not repeat a token`,
    send: send as Ask,
    gets,
  })),
  {
    says: "the message of 41701 does not repeat a token",
    send: create(X, { Expect: "<write>" }),
    gets: 41701,
    closes: true,
    skip: EMBEDDER.expects,
  },
  {
    says: "the message about a Host does not repeat a token",
    send: create(X, { Host: "<write>/" }),
    gets: 40001,
    closes: true,
    skip: EMBEDDER.checksHost,
  },
  ...skipped(EMBEDDER.parses, [
    ...[{ "<write> ": "x" }, { "Content-Length": "<write>" }].map((headers) => ({
      says: `the message about ${Object.keys(headers)} does not repeat a token`,
      send: create(X, headers),
      gets: 40001,
      closes: true,
    })),
    ...[{ version: "<write>" }, { method: "<write>" }].map((ask) => ({
      says: `the message about the ${Object.keys(ask)} does not repeat a token`,
      send: ask,
      gets: 40001,
      closes: true,
    })),
  ]),
];

const JSON_TYPES = [
  "application/json",
  "Application/JSON",
  "application/json;charset=utf-8",
  "application/json; charset=UTF-8",
  'application/json; charset="utf-8"',
  "application/json \t;\tCharset=utf-8",
  "application/json; version=1",
  'application/json; profile="https://plants.example/a b"; charset=utf-8',
  'application/json; x="; charset=latin1"',
  'application/json; x="\\"; charset=latin1"',
  "application/json; xcharset=latin1",
  "application/json;",
];

const OTHER_TYPES: readonly (string | readonly string[] | undefined)[] = [
  undefined,
  "",
  ";charset=utf-8",
  "text/plain",
  "text/plain;application/json",
  "text/json",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=application/json",
  "application/jsonx",
  "application/json5",
  "application/json-patch+json",
  "application/vnd.plant+json",
  "application/x-json",
  "application/javascript",
  "application/*",
  "*/*",
  "json",
  "application / json",
  "application/json, text/plain",
  "text/plain, application/json",
  "application/json text/plain",
  "application/json; charset=latin1",
  "application/json; charset=iso-8859-1",
  'application/json; charset="iso-8859-1"',
  "application/json; CHARSET=UTF-16",
  "application/json; charset=us-ascii",
  "application/json; charset=",
  'application/json; charset=""',
  "application/json; charset=utf-8; charset=latin1",
  "application/json; charset=latin1; charset=utf-8",
  "application/json; charset",
  'application/json; x="unclosed',
  "application/json\u00a0",
  "application/json;\u00a0",
  "application/json;\u00a0charset=utf-8",
  `application/json${";\u00a0".repeat(3000)}`,
  ["application/json", "application/json"],
  ["application/json", "text/plain"],
  ["text/plain", "application/json"],
  // Joined by a comma these two are one valid type.
  ['application/json; a="b', 'c"'],
];

const CODINGS = [
  "gzip",
  "GZIP",
  "x-gzip",
  "deflate",
  "br",
  "zstd",
  "aes128gcm",
  "utf-8",
  "gzip, identity",
  "identity, gzip",
  ["identity", "gzip"],
];

const EXPECT = { Expect: "100-continue", "Content-Length": "25" };

/** Faults that are known before the body. */
const BEFORE_100: readonly [gets: number, ask: Ask][] = [
  [40101, { headers: NONE }],
  [40102, { headers: { Authorization: "Bearer x" } }],
  [40401, { target: "/nowhere" }],
  [40501, { method: "PUT" }],
  [41501, { headers: { "Content-Type": ["application/json", "text/plain"] } }],
  [41501, { headers: { "Content-Type": "text/plain" } }],
  [41502, { headers: { "Content-Encoding": "gzip" } }],
  [41301, { headers: { "Content-Length": "1048577" } }],
  [40001, { headers: { Host: ["a", "b"] } }],
];

const MEDIA: readonly Case[] = [
  ...JSON_TYPES.map((type) => ({
    says: `Content-Type: ${type} is JSON`,
    send: create(X, { "Content-Type": type }),
    gets: 200,
    stores: X,
  })),
  ...OTHER_TYPES.map((type) => ({
    says: `Content-Type: ${JSON.stringify(type)?.slice(0, 60)} is 41501`,
    send: create(X, { "Content-Type": type }),
    gets: 41501,
  })),
  ...["identity", "Identity"].map((coding) => ({
    says: `Content-Encoding: ${coding} is no coding`,
    send: create(X, { "Content-Encoding": coding }),
    gets: 200,
    stores: X,
  })),
  ...CODINGS.map((coding) => ({
    says: `Content-Encoding: ${coding} is 41502`,
    send: create(X, { "Content-Encoding": coding }),
    gets: 41502,
  })),
  ...["100-continue", "100-Continue"].map((expect) => ({
    says: `Expect: ${expect} is responded 100, then 200`,
    send: [{ ...create(X, { Expect: expect }), isHeadOnly: true }, X],
    gets: [100, 200],
    stores: X,
  })),
  ...skipped(EMBEDDER.expects, [
    ...BEFORE_100.map(([gets, ask]) => ({
      says: `Expect: 100-continue gets no 100 before ${gets}: ${JSON.stringify(ask).slice(0, 60)}`,
      send: { ...ask, headers: { ...EXPECT, ...ask.headers }, isHeadOnly: true },
      gets,
      closes: true,
    })),
    ...["200-ok", "100-continue, 200-ok", "100-continue-x", "x-100-continue"].map((expect) => ({
      says: `Expect: ${expect} is 41701 without a 100`,
      send: create(X, { Expect: expect }),
      gets: 41701,
      closes: true,
    })),
  ]),
  {
    says: "HTTP/1.0 has no 100: its Expect: 100-continue is ignored",
    send: { version: "HTTP/1.0", headers: { Expect: "100-continue" }, body: X },
    gets: 200,
    stores: X,
    closes: true,
  },
];

const UNKNOWN_PATHS = [
  "/",
  "/plants/",
  "/Plants",
  "/PLANTS",
  "/plant",
  "/plantsx",
  "/plants/x",
  "/plants/1/",
  "/plants/{id}",
  "/plants;a=b",
  "/plants,",
  "//plants",
  "/./plants",
  "/x/../plants",
  "/plants/.",
  "/%70lants",
  "/plants%20",
  "/plants%00",
  "/plants%2f",
  "/plants%3Fx",
  "/plants#x",
  "/garden/plants",
  "/health",
  "/__proto__",
  "/constructor",
  "/?/plants",
  "*",
  "http://localhost",
  "http://localhost/",
  "http://localhost//plants",
  "http://localhost/plants/",
  "http://localhost?/plants",
  "ftp://localhost/plants",
];

const KNOWN_TARGETS = [
  "/plants?",
  "/plants?x=1&y",
  "/plants?/nowhere",
  "/plants??#x",
  "http://localhost/plants",
  "http://localhost/plants?x",
  "http://other.example:8080/plants",
  "HTTPS://LOCALHOST/plants",
  "http://[::1]:80/plants",
];

/** Base paths: those that are below it, and those that only look so. */
const BASES: readonly [on: NonNullable<Case["on"]>, base: string, ...wrong: string[]][] = [
  [
    "garden",
    "/garden",
    "/GARDEN",
    "/Garden",
    "/gardem",
    "/garde",
    "/gardens",
    "/xgarden",
    "/garden/garden",
  ],
  ["deep", "/a/b-c/~d", "/a/b-c/~D", "/a/b-c", "/a", "/a/b-c/~e"],
  ["plantsPath", "/plants", "/Plants", "/plantt"],
  ["escaped", "/%C3%A9", "/%c3%a9", "/%C3%A8"],
  ["slash", ""],
];

const ROUTING: readonly Case[] = [
  ...(
    [
      ["/plants", ["GET", "HEAD", "POST"]],
      ["/plants/7", ["GET", "HEAD"]],
    ] as const
  ).flatMap(([target, allowed]) =>
    METHODS.filter((method) => ![...allowed, "CONNECT"].includes(method)).map((method) => ({
      says: `${method} ${target} is 40501 with Allow`,
      send: { method, target, ...(method === "POST" ? { body: X } : {}) },
      gets: 40501,
      headers: { allow: allowed.join(", ") },
    })),
  ),
  ...(
    [
      ["/plants", 403],
      ["/plants/7", 403],
      ["/nowhere", 404],
    ] as const
  ).map(([target, gets]) => ({
    says: `HEAD ${target} by a token that may not is ${gets} without a body`,
    send: { method: "HEAD", target },
    gets,
  })),
  ...UNKNOWN_PATHS.flatMap((target) =>
    [{ body: X }, { method: "GET" }].map((ask) => ({
      says: `${ask.method ?? "POST"} ${target} is 40401`,
      send: { target, ...ask },
      gets: 40401,
    })),
  ),
  ...KNOWN_TARGETS.map((target) => ({
    says: `POST ${target} is a create`,
    send: { target, body: X },
    gets: 200,
    stores: X,
  })),
  ...BASES.flatMap(([on, base, ...wrong]): Case[] => [
    ...[base, `http://localhost${base}`].flatMap((prefix) =>
      ["/plants", "/plants?x"].map((end) => ({
        says: `below the base path "${base}", POST ${prefix}${end} is a create`,
        on,
        send: { target: prefix + end, body: X },
        gets: 200,
        stores: X,
      })),
    ),
    {
      says: `below the base path "${base}" a plant is read`,
      on,
      send: [{ target: `${base}/plants`, body: X }, get(`${base}/plants/<1>`)],
      gets: [200, 200],
      body: X,
      stores: X,
    },
    ...[
      ...wrong.map((path) => `${path}/plants`),
      `${base}/`,
      `${base}/plants/`,
      `/x${base}/plants`,
      ...(base === "" ? [] : ["/", base, `${base}plants`]),
      ...(base === "" || base === "/plants" ? [] : ["/plants"]),
    ].map((target) => ({
      says: `${target} is not below the base path "${base}"`,
      on,
      send: { target, body: X },
      gets: 40401,
    })),
  ]),
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
  return {
    says: `${what} is responded before every later ${last}`,
    send: { ...Object.assign({}, ...asks), headers },
    gets,
    closes: "Content-Length" in headers, // the rest of the announced body never comes
    skip,
  };
}

/** Rows that hold whatever the store does: each fault with all later ones, and with those that are not the embedder's. */
export const ORDER: readonly Case[] = FAULTS.flatMap((fault, at) => {
  const later = FAULTS.slice(at);
  const own = later.filter(([, , , skip]) => skip === undefined);
  const isOther = own[0] === fault && own.length < later.length;
  return [faulty(later), ...(isOther ? [faulty(own, "fault of the listener")] : [])];
});

const IDS: readonly [what: string, id: string | readonly string[], isKept: boolean][] = [
  ["one character", "a", true],
  ["64 characters", "a".repeat(64), true],
  ["a UUID", "0fbd3e2c-9f3b-4b9e-8f0e-6d7c5a4b3e21", true],
  ["every punctuation there may be", "a.b_c~d+e/f=g:h@i-j", true],
  ["65 characters", "a".repeat(65), false],
  ["nothing", "", false],
  ["a space", "a b", false],
  ["a quote", 'a"b', false],
  ["a backslash", "a\\b", false],
  ["markup", "<b>", false],
  ["a percent escape", "a%1b[31m", false],
  ["a tab", "a\tb", false],
  ["a byte beyond ASCII", "a\u0085b", false],
  ["a second one beside it", ["a", "b"], false],
];

const OURS = /^[0-9a-f]{12}-[1-9][0-9]*$/;

const REQUEST_IDS: readonly Case[] = IDS.map(([what, id, isKept]) => ({
  says: `a request id of ${what} is ${isKept ? "sent back" : "replaced"}`,
  send: create(X, { "X-Request-Id": id }),
  gets: 200,
  headers: { "x-request-id": isKept ? String(id) : OURS },
  stores: X,
}));

const LIST = "X-Forwarded-For";

const FORWARDED: readonly [says: string, headers: Ask["headers"], client: string][] = [
  ["no header", {}, "127.0.0.1"],
  ["one address", { [LIST]: "192.0.2.1" }, "192.0.2.1"],
  ["an address that the client put in front", { [LIST]: "6.6.6.6, 192.0.2.1" }, "192.0.2.1"],
  ["further trusted proxies", { [LIST]: "6.6.6.6, 192.0.2.1, 10.1.2.3,10.0.0.1" }, "192.0.2.1"],
  ["a client before an untrusted proxy", { [LIST]: "192.0.2.1, 11.0.0.1, 10.0.0.1" }, "11.0.0.1"],
  ["trusted proxies alone", { [LIST]: "10.1.2.3, 10.0.0.1" }, "10.1.2.3"],
  ["several lines", { [LIST]: ["6.6.6.6", "192.0.2.1", "10.0.0.1"] }, "192.0.2.1"],
  ["a port", { [LIST]: "192.0.2.1:4711" }, "192.0.2.1"],
  ["IPv6", { [LIST]: "2001:db8::1" }, "2001:db8::1"],
  ["IPv6 with a port", { [LIST]: "[2001:DB8:0::1]:4711" }, "2001:db8::1"],
  ["an IPv4 address as IPv6", { [LIST]: "6.6.6.6, ::ffff:192.0.2.1" }, "192.0.2.1"],
  ["the same in hexadecimal", { [LIST]: "::FFFF:c000:0201" }, "192.0.2.1"],
  ["a trusted proxy as IPv6", { [LIST]: "192.0.2.1, ::ffff:10.0.0.1" }, "192.0.2.1"],
  ["a trusted proxy in IPv6", { [LIST]: "192.0.2.1, fd00::7" }, "192.0.2.1"],
  ["no address", { [LIST]: "6.6.6.6, garbage" }, "127.0.0.1"],
  ["no address before a trusted proxy", { [LIST]: "6.6.6.6, garbage, 10.0.0.1" }, "10.0.0.1"],
  ["nothing in it", { [LIST]: "" }, "127.0.0.1"],
  ["a percent escape", { [LIST]: "6.6.6.6, 192.0.2.1%1b" }, "127.0.0.1"],
  ["the interface of an address", { [LIST]: "fe80::1%eth0" }, "fe80::1"],
  ["500 proxies", { [LIST]: `192.0.2.1${", 10.0.0.1".repeat(500)}` }, "10.0.0.1"],
  [
    "as many proxies as there may be",
    { [LIST]: `192.0.2.1${", 10.0.0.1".repeat(31)}` },
    "192.0.2.1",
  ],
  ["one proxy too many", { [LIST]: `192.0.2.1${", 10.0.0.1".repeat(32)}` }, "10.0.0.1"],
  ["Forwarded alone", { Forwarded: "for=192.0.2.1" }, "127.0.0.1"],
];

const CLIENTS: readonly Case[] = [
  ...FORWARDED.map(([what, headers = {}, client]) => ({
    says: `behind a trusted proxy that sends ${what} the client is ${client}`,
    on: "proxied" as const,
    send: create(X, headers),
    gets: 200,
    stores: X,
    client,
  })),
  {
    says: "without trusted proxies X-Forwarded-For is ignored",
    send: create(X, { [LIST]: "6.6.6.6" }),
    gets: 200,
    stores: X,
    client: "127.0.0.1",
    skip: { executable: "the address is seen in the process of the server" },
  },
];

export const REQUESTS: readonly Case[] = [
  ...AUTH,
  ...SECRETS,
  ...MEDIA,
  ...ROUTING,
  ...ORDER,
  {
    says: "every fault of a plant is named at once",
    send: create('{"id":"7","tag":7}'),
    gets: 40005,
    message: naming("id", "name", "tag"),
  },
  ...REQUEST_IDS,
  ...CLIENTS,
];
