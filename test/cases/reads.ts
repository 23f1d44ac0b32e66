/** Reading: a plant by its id, pages, streams and queries. */
import { type Case, create, EMBEDDER, get, plants, STORED, X } from "./case.ts";

const NDJSON = { Accept: "application/x-ndjson" };
const ALL = `[${STORED.join()}]`;
const lines = (all: readonly string[]) => all.map((line) => `${line}\n`).join("");

const pageOf = (all: readonly string[]) => `[${all.join()}]`;
const next = (limit: number, after: string | number) =>
  `<?limit=${limit}&after=${after}>; rel="next"`;

const NO_IDS: readonly [id: string, message?: RegExp][] = [
  ["007", /zero|canonical|digits/i],
  ["+7"],
  ["7.0"],
  ["70e-1"],
  ["-0"],
  ["00"],
  [""],
  ["x"],
  ["%37"],
  ["7%20"],
  ["0x7"],
  ["9223372036854775808"],
  ["-9223372036854775809"],
  ["1".repeat(5000)],
  ["<read>"],
];

const BAD_QUERIES: readonly [query: string, error: number, message?: RegExp][] = [
  ["limit=0", 40007],
  ["limit=1001", 40007],
  ["limit=-1", 40007],
  ["limit=01", 40007],
  ["limit=1.0", 40007],
  ["limit=", 40007],
  ["limit", 40007],
  ["limit=all", 40007],
  ["limit=1&limit=1", 40007],
  ["after=", 40007],
  ["after=x", 40007],
  ["after=01", 40007],
  ["after=%2B1", 40007],
  ["after=+1", 40007],
  ["after=1.0", 40007],
  ["after=-0", 40007],
  ["after=9223372036854775808", 40007],
  ["after=7&after=8", 40007],
  ["after=9", 40008],
  ["after=-1", 40008],
  ["after=9223372036854775806", 40008],
  ["name=Fern", 40007, /limit.* and .*after.*, got "name/],
  ["page=2", 40007, /limit.* and .*after.*, got "page/],
  ["Limit=1", 40007, /limit.* and .*after.*, got "Limit/],
  ["limit=1&__proto__=1", 40007],
  ["limit=<read>", 40007],
  ["after=<read>", 40007],
  ["<read>=1", 40007],
  [`limit=1&limit=2&after=${"y".repeat(5000)}`, 40007, /^(?=.*limit)(?=.*after).{1,299}$/],
];

const TYPES: readonly [accept: string, isStream: boolean][] = [
  ["", false],
  ["*/*", false],
  ["application/*", false],
  ["application/json", false],
  ["Application/X-NDJSON", true],
  ["application/x-ndjson;charset=utf-8", true],
  ["text/html, application/x-ndjson", true],
  ["application/x-ndjson, application/json", true],
  ["application/json, application/x-ndjson;q=0.5", true],
  ["text/x-ndjson", false],
];

/** A walk through pages of the first plants of `many`. */
function walk(limit: number, last: number): Case[] {
  const all = plants(1002);
  return Array.from({ length: Math.ceil(last / limit) }, (_, at) => {
    const [from, to] = [at * limit, (at + 1) * limit];
    const after = at === 0 ? "" : `&after=${from}`;
    return {
      says: `page ${at + 1} of ${limit} plants links to the next if more follow`,
      on: "many",
      send: get(`/plants?limit=${limit}${after}`),
      gets: 200,
      body: pageOf(all.slice(from, to)),
      headers: { link: to < all.length ? next(limit, to) : undefined },
    };
  });
}

export const READS: readonly Case[] = [
  {
    says: "an empty store has one empty page",
    on: "empty",
    send: get("/plants"),
    gets: 200,
    body: "[]",
    headers: { link: undefined },
  },
  {
    says: "an empty store has an empty stream",
    on: "empty",
    send: get("/plants", NDJSON),
    gets: 200,
    body: "",
  },
  ...STORED.map((line) => {
    const id = /-?\d+/.exec(line)?.[0] ?? "";
    return {
      says: `the plant ${id} is read back, every digit and character`,
      on: "reads" as const,
      send: [
        get(`/plants/${id}?x`),
        get(`/plants/${id}`, {}, "HEAD"),
        get(`http://other.example/plants/${id}`),
      ],
      gets: [200, 200, 200],
      body: line,
    };
  }),
  ...NO_IDS.map(([id, message = /./]) => ({
    says: `/plants/${id.slice(0, 30)} is no path`,
    on: "reads" as const,
    send: get(`/plants/${id}`),
    gets: 40401,
    message,
  })),
  ...["9", "-7", "1", "9007199254740992", "9007199254740994", "9223372036854775806"].map((id) => ({
    says: `there is no plant ${id}: 40402`,
    on: "reads" as const,
    send: get(`/plants/${id}`),
    gets: 40402,
  })),
  {
    says: "a plant is read as soon as it is stored",
    send: [get("/plants/<1>"), create(X), get("/plants/<1>")],
    gets: [40402, 200, 200],
    body: X,
    stores: X,
  },
  {
    says: "plants are listed as they were created",
    on: "reads",
    send: get("/plants"),
    gets: 200,
    body: ALL,
  },
  {
    says: "plants are streamed, a line each",
    on: "reads",
    send: get("/plants", NDJSON),
    gets: 200,
    body: lines(STORED),
    headers: { link: undefined },
  },
  {
    says: "a stream begins after a plant and ends at a limit",
    on: "reads",
    send: get("/plants?after=0&limit=2", NDJSON),
    gets: 200,
    body: lines(STORED.slice(3, 5)),
  },
  {
    says: "the names of parameters may be percent-encoded",
    on: "reads",
    send: get("/plants?after=%2D5&%6cimit=1&&"),
    gets: 200,
    body: pageOf(STORED.slice(2, 3)),
    headers: { link: next(1, 0) },
  },
  {
    says: "the page after the last plant is empty",
    on: "reads",
    send: get("/plants?after=9223372036854775807"),
    gets: 200,
    body: "[]",
    headers: { link: undefined },
  },
  {
    says: "the link after an id beyond 2^53 has every digit",
    on: "reads",
    send: get("/plants?limit=6"),
    gets: 200,
    body: pageOf(STORED.slice(0, 6)),
    headers: { link: next(6, "9007199254740993") },
  },
  ...["/plants/7", "/plants", "/plants?limit=3"].map((target) => ({
    says: `HEAD ${target} has the headers of GET and no body`,
    on: "reads" as const,
    send: get(target, {}, "HEAD"),
    gets: 200,
    headers: { "content-length": /^[1-9]\d+$/ },
  })),
  ...(
    [
      ["/plants/99", 404],
      ["/plants/007", 404],
      ["/plants?limit=x", 400],
    ] as const
  ).map(([target, gets]) => ({
    says: `HEAD ${target} is ${gets} without a body`,
    on: "reads" as const,
    send: get(target, {}, "HEAD"),
    gets,
    headers: { "content-length": /^[1-9]\d+$/ },
  })),
  ...walk(334, 1002),
  ...walk(501, 1002),
  ...walk(1000, 1002),
  {
    says: "a page has 100 plants by default",
    on: "many",
    send: get("/plants"),
    gets: 200,
    body: pageOf(plants(100)),
    headers: { link: next(100, 100) },
  },
  {
    says: "a stream has every plant by default",
    on: "many",
    send: get("/plants", NDJSON),
    gets: 200,
    body: lines(plants(1002)),
  },
  ...[0, 2, 4].map((after) => ({
    says: `a page ends at about 1 MiB, and the next one continues after ${after}`,
    on: "long" as const,
    send: get(`/plants?limit=1000${after === 0 ? "" : `&after=${after}`}`),
    gets: 200,
    body: pageOf(plants(5, "x".repeat(600_000)).slice(after, after + 2)),
    headers: { link: after === 4 ? undefined : next(1000, after + 2) },
  })),
  ...BAD_QUERIES.flatMap(([query, gets, message = /./]) =>
    [{}, NDJSON].map((headers) => ({
      says: `/plants?${query.slice(0, 40)} is ${gets}${headers === NDJSON ? " as a stream" : ""}`,
      on: "reads" as const,
      send: get(`/plants?${query}`, headers),
      gets,
      message,
    })),
  ),
  ...TYPES.map(([accept, isStream]) => ({
    says: `Accept: ${accept} gets a ${isStream ? "stream" : "page"}`,
    on: "reads" as const,
    send: get("/plants", { Accept: accept }),
    gets: 200,
    body: isStream ? lines(STORED) : ALL,
  })),
  {
    says: "HTTP/1.0 gets a page: without chunks its client could not notice that a stream was cut",
    on: "reads",
    send: { ...get("/plants", { ...NDJSON, Connection: "keep-alive" }), version: "HTTP/1.0" },
    gets: 200,
    body: ALL,
  },
  {
    says: "the link is right below a base path",
    on: "garden",
    send: get("/garden/plants?limit=1"),
    gets: 200,
    body: '[{"id":1,"name":"plant"}]',
    headers: { link: next(1, 1) },
  },
  ...(
    [
      [40102, { method: "PUT", target: "/plants/007", headers: { Authorization: "Bearer x" } }],
      [40401, { method: "PUT", target: "/plants/007" }],
      [40501, { method: "PUT", target: "/plants/7" }],
      [40301, { method: "GET", target: "/plants/7", headers: { "Content-Length": "0" } }],
      [40007, get("/plants?limit=x&after=1")],
      [40008, get("/plants?limit=1&after=1")],
    ] as const
  ).map(([gets, send]) => ({
    says: `of the faults of a read ${gets} is responded before every later one`,
    on: "reads" as const,
    send,
    gets,
  })),
  {
    says: "an unknown expectation of a read is 41701",
    on: "reads",
    send: get("/plants?limit=x", { Expect: "x" }),
    gets: 41701,
    skip: EMBEDDER.expects,
  },
  ...["text/plain", undefined].map((type) => ({
    says: `a read needs no content type: ${type}`,
    on: "reads" as const,
    send: get("/plants/8", { "Content-Type": type, "Content-Length": "0" }),
    gets: 200,
    body: '{"id":8,"name":"Ivy"}',
  })),
  {
    says: "a create of another id range is not in a page of it",
    send: [create(X), create('{"id":<2>,"name":"y"}'), get("/plants?after=<1>&limit=1")],
    gets: [200, 200, 200],
    body: '[{"id":<2>,"name":"y"}]',
    headers: { link: undefined },
    stores: [X, '{"id":<2>,"name":"y"}'],
    skip: { postgres: "lists are in order of id, and others have greater ids" },
  },
  // Last, because the plant that follows each is in every list.
  {
    says: "a create behind the chunks of a read is not carried out",
    on: "reads",
    send: [{ ...get("/plants/7"), chunks: ["x"] }, create(X)],
    how: "pipelined",
    gets: 40001,
    closes: true,
  },
  ...["/plants/7", "/plants/99", "/plants"].flatMap((target) =>
    [{ "Content-Length": "5" }, { "Transfer-Encoding": "chunked" }].map((headers) => ({
      says: `${target} with a body, ${Object.keys(headers)}, is 40001 and closes`,
      on: "reads" as const,
      send: get(target, headers),
      gets: 40001,
      closes: true,
    })),
  ),
];
