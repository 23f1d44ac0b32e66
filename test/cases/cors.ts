/** Pages of other origins: preflights, and the headers that let a page read a response. */
import type { Ask, Case } from "./case.ts";
import { APP, bad, create, EMBEDDER, get, good, OTHER, skipped, X } from "./case.ts";

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

function preflight(Origin: string | undefined, target = "/plants", more: Ask["headers"] = {}): Ask {
  const asked = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
  };
  return {
    method: "OPTIONS",
    target,
    headers: { Origin, Authorization: undefined, ...asked, ...more },
  };
}

/** A row of a preflight that is allowed, with the headers that the page may send. */
function allowed(
  on: NonNullable<Case["on"]>,
  origin: string,
  send: Ask,
  names = "authorization,content-type",
): Case {
  return {
    says: `a preflight of ${send.target} from ${origin} is 204 without a token: ${names}`,
    on,
    send,
    gets: 204,
    headers: {
      ...marks(origin),
      "access-control-allow-methods": "GET, HEAD, POST",
      "access-control-allow-headers": names,
      "access-control-max-age": "7200",
      "content-type": undefined,
    },
  };
}

const USUAL = "authorization, content-type";
const READABLE = { on: "app", headers: marks(APP) } as const;
const UNREADABLE = { on: "app", headers: NO_MARKS } as const;

/** Headers that a page asks for, and those that are allowed. */
const ASKED: readonly [asked: string | undefined, allowed: string][] = [
  ["authorization,baggage,traceparent", "authorization,baggage,traceparent"],
  ["X-B3-TraceId ,\tx-b3-traceid, *", "X-B3-TraceId ,\tx-b3-traceid, *"],
  ["traceparent,x:y", USUAL],
  ["x".repeat(1025), USUAL],
  [undefined, USUAL],
];

/** Not the origin `APP`. */
const OTHERS = [
  ...[undefined, "null", `${APP}.stranger.example`, `${APP}:443`, `${APP}/`, APP.slice(0, -1)],
  ...[APP.toUpperCase(), `${APP}, ${APP}`, "http://app.example"],
];

/** Responses of every kind. */
const RESPONSES: readonly [gets: number, ask: Ask, skip?: Case["skip"]][] = [
  [200, create(X)],
  [40005, create("{}")],
  [40102, { headers: { Authorization: "Bearer x" } }],
  [40301, { method: "GET" }],
  [40401, { target: "/nowhere" }],
  [41301, { headers: { "Content-Length": "1048577" } }],
  [41701, { headers: { Expect: "x" } }, EMBEDDER.expects],
  [40001, { headers: { Host: undefined } }, EMBEDDER.checksHost],
  [40001, { headers: { "Transfer-Encoding": "chunked" }, body: "no chunk" }, EMBEDDER.parses],
];

function responses(
  says: string,
  on: NonNullable<Case["on"]>,
  origin: string,
  headers: NonNullable<Case["headers"]>,
): Case[] {
  return RESPONSES.map(([gets, ask, skip = {}]) => ({
    says: `${says}: ${gets}`,
    on,
    send: { ...ask, headers: { Origin: origin, ...ask.headers } },
    gets,
    headers,
    stores: gets === 200 ? X : [],
    closes: gets === 41301 || gets === 40001,
    skip,
  }));
}

export const CORS: readonly Case[] = [
  ...["/plants", "/plants?limit=1", "/plants/7", "/", "http://localhost/nowhere?x"].flatMap(
    (target) => [APP, OTHER].map((origin) => allowed("apps", origin, preflight(origin, target))),
  ),
  ...ASKED.map(([asked, others]) => {
    const headers = { "Access-Control-Request-Headers": asked };
    return allowed("app", APP, preflight(APP, "/plants", headers), others);
  }),
  ...["/garden/plants", "/plants", "*"].map((target) =>
    allowed("appGarden", APP, preflight(APP, target)),
  ),
  ...[STRANGER, ...OTHERS].map((origin) =>
    bad(`a preflight from ${origin} needs a token`, 40101, preflight(origin), UNREADABLE),
  ),
  bad(
    "OPTIONS without a method that is asked for is no preflight",
    40101,
    preflight(APP, "/plants", { "Access-Control-Request-Method": undefined }),
    READABLE,
  ),
  bad("OPTIONS is 40501", 40501, { method: "OPTIONS", headers: { Origin: APP } }, READABLE),
  bad("a preflight without CORS needs a token", 40101, preflight(APP), { headers: NO_MARKS }),
  {
    ...allowed("open", "*", preflight(APP)),
    says: "a client that does not wait for the response to a preflight is closed",
    send: [preflight(APP), preflight(APP), create(X)],
    how: "pipelined",
    closes: "unannounced",
    skip: EMBEDDER.readsOn,
  },
  ...responses("a page of the one origin reads every response", "app", APP, marks(APP)),
  ...responses("a page of one of two origins reads every response", "apps", APP, marks(APP)),
  ...responses("with the origin * any page reads every response", "open", STRANGER, marks("*")),
  ...responses("another page reads none", "app", STRANGER, NO_MARKS),
  ...responses("without CORS there are no such headers", "plain", APP, NO_MARKS),
  ...OTHERS.map((origin) =>
    good(`the origin ${origin} is not ${APP}`, create(X, { Origin: origin }), UNREADABLE),
  ),
  ...["*/*", "application/x-ndjson"].map((Accept) =>
    bad(`a page reads ${Accept}`, 200, get("/plants", { Origin: APP, Accept }), READABLE),
  ),
  ...skipped(EMBEDDER.parses, [
    bad(
      "the origin of a refused body is that of its head, whatever the body contains",
      40001,
      create(`no chunk\nOrigin: ${APP}\r\n`, { Origin: STRANGER, "Transfer-Encoding": "chunked" }),
      { on: "app", headers: NO_MARKS, closes: true },
    ),
  ]),
];
