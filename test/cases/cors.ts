/** Pages of other origins: preflights, and the headers that let a page read a response. */
import {
  APP,
  type Ask,
  type Case,
  create,
  EMBEDDER,
  get,
  OTHER,
  plants,
  skipped,
  X,
} from "./case.ts";

const STRANGER = "https://stranger.example";

const NO_MARKS = {
  "access-control-allow-origin": undefined,
  "access-control-expose-headers": undefined,
  "access-control-allow-headers": undefined,
};

function marks(origin: string) {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers":
      /^(?=.*Link)(?=.*Retry-After)(?=.*WWW-Authenticate)(?=.*X-Request-Id)/,
  };
}

function preflight(
  origin: string | undefined,
  target = "/plants",
  headers: Ask["headers"] = {},
): Ask {
  return {
    method: "OPTIONS",
    target,
    headers: {
      Origin: origin,
      Authorization: undefined,
      "Access-Control-Request-Method": "POST",
      "Access-Control-Request-Headers": "authorization,content-type",
      ...headers,
    },
  };
}

const TARGETS = [
  "/plants",
  "/plants?limit=1",
  "/plants/7",
  "/plants/007",
  "/plants/",
  "/",
  "http://localhost/nowhere?x",
];

/** Headers that a page asks for, and those that are allowed besides the usual ones. */
const ASKED: readonly [asked: string | undefined, allowed: string][] = [
  ["authorization,baggage,sentry-trace,traceparent", "baggage, sentry-trace, traceparent"],
  ["X-B3-TraceId ,\tx-b3-traceid, Authorization", "x-b3-traceid"],
  ["traceparent,,a b,x:y,caf\u00e9,*", "traceparent, \\*"],
  ["x".repeat(1025), ""],
  ["", ""],
  [undefined, ""],
];

/** Responses of every kind, and what is stored. */
const RESPONSES: readonly [gets: number, ask: Ask, skip?: Case["skip"]][] = [
  [200, create(X)],
  [40005, create("{}")],
  [40101, { headers: { Authorization: undefined } }],
  [40102, { headers: { Authorization: "Bearer x" } }],
  [40301, { method: "GET" }],
  [40401, { target: "/nowhere" }],
  [40501, { method: "PUT" }],
  [41301, { headers: { "Content-Length": "1048577" } }],
  [41501, { headers: { "Content-Type": "text/plain" } }],
  [41701, { headers: { Expect: "x" } }, EMBEDDER.expects],
  [40001, { headers: { Host: undefined } }, EMBEDDER.checksHost],
  [40001, { headers: { "Transfer-Encoding": "chunked" }, body: "no chunk" }, EMBEDDER.parses],
];

function responses(
  says: string,
  on: Case["on"],
  origin: string | undefined,
  expected: Case["headers"],
): Case[] {
  return RESPONSES.map(([gets, ask, skip = {}], at) => ({
    says: `${says}: ${gets} (${at})`,
    ...(on === undefined ? {} : { on }),
    send: { ...ask, headers: { Origin: origin, ...ask.headers } },
    gets,
    ...(expected === undefined ? {} : { headers: expected }),
    ...(gets === 200 ? { stores: X } : {}),
    closes: gets === 41301 || gets === 40001,
    skip,
  }));
}

export const CORS: readonly Case[] = [
  ...TARGETS.flatMap((target) =>
    [APP, OTHER].map((origin) => ({
      says: `a preflight of ${target} from ${origin} is 204 without a token, with all methods and headers`,
      on: "apps" as const,
      send: preflight(origin, target),
      gets: 204,
      headers: {
        ...marks(origin),
        "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-allow-headers": /^authorization, content-type(?!.*origin)/,
        "access-control-max-age": "7200",
        "content-type": undefined,
      },
    })),
  ),
  ...ASKED.map(([asked, allowed]) => ({
    says: `a page that asks for ${asked?.slice(0, 46)} is allowed the headers with valid names`,
    on: "app" as const,
    send: preflight(APP, "/plants", { "Access-Control-Request-Headers": asked }),
    gets: 204,
    headers: {
      ...marks(APP),
      "access-control-allow-methods": /./,
      "access-control-allow-headers": new RegExp(
        `x-request-id${allowed === "" ? "" : `, ${allowed}`}$`,
      ),
      "access-control-max-age": /./,
    },
  })),
  ...["/garden/plants", "/garden/nowhere", "/plants", "*"].map((target) => ({
    says: `a preflight of ${target} is 204 with a base path`,
    on: "appGarden" as const,
    send: preflight(APP, target),
    gets: 204,
    headers: {
      ...marks(APP),
      "access-control-allow-methods": /./,
      "access-control-allow-headers": /./,
      "access-control-max-age": /./,
    },
  })),
  ...[
    STRANGER,
    "null",
    APP.toUpperCase(),
    `${APP}.stranger.example`,
    `${APP}:443`,
    `${APP}/`,
    APP.slice(0, -1),
    "http://app.example",
    undefined,
  ].map((origin) => ({
    says: `a preflight from ${origin} needs a token, like any other request`,
    on: "app" as const,
    send: preflight(origin),
    gets: 40101,
    headers: NO_MARKS,
  })),
  {
    says: "OPTIONS without a method that is asked for is no preflight",
    on: "app",
    send: preflight(APP, "/plants", { "Access-Control-Request-Method": undefined }),
    gets: 40101,
    headers: marks(APP),
  },
  {
    says: "OPTIONS with a token is 40501",
    on: "app",
    send: { method: "OPTIONS", headers: { Origin: APP } },
    gets: 40501,
    headers: marks(APP),
  },
  {
    says: "a preflight without CORS needs a token",
    send: preflight(APP),
    gets: 40101,
    headers: NO_MARKS,
  },
  {
    says: "a client that does not wait for the response to a preflight is closed",
    on: "open",
    send: [preflight(APP), preflight(APP), create(X)],
    how: "pipelined",
    gets: 204,
    headers: {
      ...marks("*"),
      "access-control-allow-methods": /./,
      "access-control-allow-headers": /./,
      "access-control-max-age": /./,
    },
    closes: "unannounced",
    skip: EMBEDDER.readsOn,
  },
  {
    says: "a preflight with two Hosts is 40001",
    on: "app",
    send: preflight(APP, "/plants", { Host: ["a", "b"] }),
    gets: 40001,
    headers: marks(APP),
    closes: true,
    skip: EMBEDDER.checksHost,
  },
  ...responses("a page of the one origin reads every response", "app", APP, marks(APP)),
  ...responses("a page of one of two origins reads every response", "apps", APP, marks(APP)),
  ...responses("with the origin * any page reads every response", "open", STRANGER, marks("*")),
  ...responses("another page reads none", "app", STRANGER, NO_MARKS),
  ...responses("without CORS there are no such headers", "plain", APP, NO_MARKS),
  ...[
    undefined,
    "null",
    `${APP}.stranger.example`,
    `${APP}, ${APP}`,
    APP.toUpperCase(),
    `${APP}/`,
  ].map((origin) => ({
    says: `the origin ${origin} is not ${APP}`,
    on: "app" as const,
    send: create(X, { Origin: origin }),
    gets: 200,
    headers: NO_MARKS,
    stores: X,
  })),
  ...["/plants/1", "/plants"].flatMap((target) =>
    [{}, { Accept: "application/x-ndjson" }].map((headers) => ({
      says: `a page reads ${target}, ${JSON.stringify(headers)}`,
      on: "app" as const,
      send: get(target, { Origin: APP, ...headers }),
      gets: 200,
      headers: { ...marks(APP), link: undefined },
    })),
  ),
  ...skipped(EMBEDDER.parses, [
    ...[
      { send: { headers: { X: "x".repeat(20_000) } }, gets: 43101 },
      { send: { headers: { "Content-Length": "x" } }, gets: 40001 },
      { send: "x\r\n\r\n", gets: 40001 },
    ].flatMap((row) =>
      (
        [
          ["app", marks(APP)],
          ["open", marks("*")],
          ["apps", NO_MARKS],
        ] as const
      ).map(([on, headers]) => ({
        says: `bytes that are no request name the origin if there is but one: ${on}, ${row.gets}`,
        on,
        closes: true,
        headers,
        ...row,
      })),
    ),
    {
      says: "the origin of a refused body is that of its head, whatever the body contains",
      on: "app",
      send: create(`no chunk\nOrigin: ${APP}\r\n`, {
        Origin: STRANGER,
        "Transfer-Encoding": "chunked",
      }),
      gets: 40001,
      headers: NO_MARKS,
      closes: true,
    },
  ]),
  {
    says: "a page reads the first two plants",
    on: "app",
    send: get("/plants?limit=2", { Origin: APP }),
    gets: 200,
    body: `[${plants(2).join()}]`,
    headers: { ...marks(APP), link: /./ },
  },
];
