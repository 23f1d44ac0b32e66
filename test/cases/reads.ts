/** Reading: a plant by its id, pages, streams and queries. */
import type { Ask, Case } from "./case.ts";
import { bad, create, EMBEDDER, get, good, list, plants, STORED, X, Y } from "./case.ts";

const NDJSON = { Accept: "application/x-ndjson" };
const HEAD = { "content-length": /^[1-9]\d+$/ };
const UNLINKED = { link: undefined };
const lines = (all: readonly string[]) => all.map((line) => `${line}\n`).join("");
const pageOf = (all: readonly string[]) => `[${all.join()}]`;

/** The header that leads to the next page. */
function next(limit: number, after: string | number) {
  return { link: `<?limit=${limit}&after=${after}>; rel="next"` };
}

/** A row of a read of `reads`. */
function reads(says: string, send: Case["send"], body: string, more: Partial<Case> = {}): Case {
  return { says, send, on: "reads", gets: 200, body, ...more };
}

const NO_IDS = list(`
  007 | +7 | 7.0 | -0 | x | %37 | 7%20 | 9223372036854775808 | -9223372036854775809 | <read>
  ${"1".repeat(5000)}`);

/** Queries that are not understood. */
const BAD_QUERIES = list(`
  limit=0 | limit=1001 | limit=01 | limit=1.0 | limit= | limit | limit=1&limit=1 | limit=1&__proto__=1
  after= | after=x | after=01 | after=%2B1 | after=+1 | after=-0 | after=9223372036854775808
  after=7&after=8 | ?limit=1 | limit=<read> | after=<read> | <read>=1`);

const QUERIES: readonly [query: string, error: number, message: RegExp][] = [
  ...BAD_QUERIES.map((query) => [query, 40007, /./] as [string, number, RegExp]),
  ["after=9", 40008, /./],
  ["after=9223372036854775806", 40008, /./],
  ["name=Fern", 40007, /limit.* and .*after.*, got "name/],
  ["Limit=1", 40007, /limit.* and .*after.*, got "Limit/],
  [`limit=1&limit=2&after=${"y".repeat(5000)}`, 40007, /^(?=.*limit)(?=.*after).{1,299}$/],
];

const STREAM_TYPES = list(`
  Application/X-NDJSON | application/x-ndjson;charset=utf-8 | text/html, application/x-ndjson
  application/json, application/x-ndjson;q=0.5`);

/** The faults of a read, in the order in which they are responded. */
const ORDER: readonly [error: number, ask: Ask][] = [
  [40102, { method: "PUT", target: "/plants/007", headers: { Authorization: "Bearer x" } }],
  [40401, { method: "PUT", target: "/plants/007" }],
  [40501, { method: "PUT", target: "/plants/7" }],
  [40301, { method: "GET", target: "/plants/7", headers: { "Content-Length": "0" } }],
  [40007, get("/plants?limit=x&after=1")],
  [40008, get("/plants?limit=1&after=1")],
];

/** A walk through pages of the plants of `many`. */
function walk(limit: number): Case[] {
  const all = plants(1002);
  return Array.from({ length: Math.ceil(all.length / limit) }, (_, at) => {
    const [from, to] = [at * limit, (at + 1) * limit];
    const after = at === 0 ? "" : `&after=${from}`;
    return {
      says: `page ${at + 1} of ${limit} plants links to the next if more follow`,
      on: "many",
      send: get(`/plants?limit=${limit}${after}`),
      gets: 200,
      body: pageOf(all.slice(from, to)),
      headers: to < all.length ? next(limit, to) : UNLINKED,
    };
  });
}

const LONG = plants(5, "x".repeat(600_000));

export const READS: readonly Case[] = [
  reads("an empty store has a page", get("/plants"), "[]", { on: "empty", headers: UNLINKED }),
  reads("an empty store has an empty stream", get("/plants", NDJSON), "", { on: "empty" }),
  ...STORED.map((line) => {
    const path = `/plants/${/-?\d+/.exec(line)?.[0]}`;
    const all = [get(`${path}?x`), get(path, {}, "HEAD"), get(`http://other.example${path}`)];
    return reads(`${path} is read back, every digit and character`, all, line, {
      gets: [200, 200, 200],
    });
  }),
  ...NO_IDS.map((id) =>
    bad(`/plants/${id.slice(0, 30)} is no path`, 40401, get(`/plants/${id}`), {
      on: "reads",
      message: /int64 without leading zeros/,
    }),
  ),
  ...["9", "-7", "9007199254740992", "9223372036854775806"].map((id) =>
    bad(`there is no plant ${id}: 40402`, 40402, get(`/plants/${id}`), { on: "reads" }),
  ),
  good(
    "a plant is read as soon as it is stored",
    [get("/plants/<1>"), create(X), get("/plants/<1>")],
    { gets: [40402, 200, 200], body: X },
  ),
  reads("plants are listed as they were created", get("/plants"), pageOf(STORED)),
  reads("a stream has no link", get("/plants", NDJSON), lines(STORED), { headers: UNLINKED }),
  reads("a part of it", get("/plants?after=0&limit=2", NDJSON), lines(STORED.slice(3, 5))),
  reads(
    "the names of parameters may be percent-encoded",
    get("/plants?after=%2D5&%6cimit=1&&"),
    pageOf(STORED.slice(2, 3)),
    { headers: next(1, 0) },
  ),
  reads("the last page is empty", get(`/plants?after=${2n ** 63n - 1n}`), "[]", {
    headers: UNLINKED,
  }),
  reads(
    "the link after an id beyond 2^53 has every digit",
    get("/plants?limit=6"),
    pageOf(STORED.slice(0, 6)),
    { headers: next(6, "9007199254740993") },
  ),
  ...Object.entries({
    "/plants/7": 200,
    "/plants?limit=3": 200,
    "/plants/99": 404,
    "/plants?x": 400,
  }).map(([target, gets]) =>
    bad(`HEAD ${target} has no body`, gets, get(target, {}, "HEAD"), {
      on: "reads",
      headers: HEAD,
    }),
  ),
  ...walk(334),
  ...walk(1000),
  reads("a page has 100 plants by default", get("/plants"), pageOf(plants(100)), {
    on: "many",
    headers: next(100, 100),
  }),
  reads("a stream has all plants by default", get("/plants", NDJSON), lines(plants(1002)), {
    on: "many",
  }),
  ...["", "&after=2", "&after=4"].map((after, at) =>
    reads(
      `a page ends at about 1 MiB, and the next one continues: ${after}`,
      get(`/plants?limit=1000${after}`),
      pageOf(LONG.slice(2 * at, 2 * at + 2)),
      { on: "long", headers: at === 2 ? UNLINKED : next(1000, 2 * at + 2) },
    ),
  ),
  ...QUERIES.flatMap(([query, error, message]) =>
    [{}, NDJSON].map((headers) =>
      bad(`/plants?${query.slice(0, 40)} is ${error}`, error, get(`/plants?${query}`, headers), {
        on: "reads",
        message,
      }),
    ),
  ),
  ...["", "*/*", "application/json", "text/x-ndjson"].map((Accept) =>
    reads(`Accept: ${Accept} gets a page`, get("/plants", { Accept }), pageOf(STORED)),
  ),
  ...STREAM_TYPES.map((Accept) =>
    reads(`Accept: ${Accept} gets a stream`, get("/plants", { Accept }), lines(STORED)),
  ),
  reads(
    "HTTP/1.0 gets a page: without chunks its client could not notice that a stream was cut",
    { ...get("/plants", { ...NDJSON, Connection: "keep-alive" }), version: "HTTP/1.0" },
    pageOf(STORED),
  ),
  reads("the link is right below a base path", get("/garden/plants?limit=1"), pageOf(plants(1)), {
    on: "garden",
    headers: next(1, 1),
  }),
  ...ORDER.map(([error, ask]) =>
    bad(`${error} is responded before every later fault`, error, ask, { on: "reads" }),
  ),
  bad("an unknown expectation of a read is 41701", 41701, get("/plants?limit=x", { Expect: "x" }), {
    on: "reads",
    skip: EMBEDDER.expects,
  }),
  reads(
    "a read needs no content type",
    get("/plants/8", { "Content-Type": "text/plain", "Content-Length": "0" }),
    '{"id":8,"name":"Ivy"}',
  ),
  good(
    "a page begins after a new plant",
    [create(X), create(Y), get("/plants?after=<1>&limit=1")],
    {
      gets: [200, 200, 200],
      body: `[${Y}]`,
      headers: UNLINKED,
      stores: [X, Y],
      skip: { postgres: "lists are in order of id, and others have greater ids" },
    },
  ),
  // Last, because the plant that follows each is in every list.
  bad(
    "a create behind the chunks of a read is not carried out",
    40001,
    [{ ...get("/plants/7"), chunks: ["x"] }, create(X)],
    { on: "reads", how: "pipelined", closes: true },
  ),
  ...["/plants/7", "/plants"].flatMap((target) =>
    [{ "Content-Length": "5" }, { "Transfer-Encoding": "chunked" }].map((headers) =>
      bad(`${target} has no body`, 40001, get(target, headers), { on: "reads", closes: true }),
    ),
  ),
];
