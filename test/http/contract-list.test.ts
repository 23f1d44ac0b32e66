/** Reading plants one page at a time: order, cursors, and the length of a page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertCommonHeaders, assertError } from "../support/contract.ts";
import {
  manyPlants,
  nextOf,
  type ReadableService,
  read,
  startReadable,
} from "../support/reading.ts";

/** The ids of this page and all later ones, page by page. */
async function walk(service: ReadableService, first: string): Promise<number[][]> {
  const pages: number[][] = [];
  for (let path: string | undefined = first; path !== undefined; ) {
    const answer = await read(service, path);
    assert.equal(answer.status, 200, answer.text);
    assertCommonHeaders(answer);
    pages.push(JSON.parse(answer.text).map(({ id }: { id: number }) => id));
    path = nextOf(path, answer);
  }
  return pages;
}

test("an empty store has one empty page", async (t) => {
  const service = await startReadable(t, []);
  const answer = await read(service, "/plants");
  assert.equal(answer.text, "[]");
  assert.equal(answer.headers.get("link"), null);
});

test("plants are listed in the order of the log, each as it was created", async (t) => {
  const plants = [
    { id: 3n, name: "c" },
    { id: -1n, name: "a", tag: "" },
    { id: 9007199254740993n, name: "b" },
  ];
  const service = await startReadable(t, plants);
  const { text } = await read(service, "/plants");
  assert.equal(
    text,
    '[{"id":3,"name":"c"},{"id":-1,"name":"a","tag":""},{"id":9007199254740993,"name":"b"}]',
  );
});

for (const [count, limit, pages] of [
  [5, 2, [[1, 2], [3, 4], [5]]],
  [
    4,
    2,
    [
      [1, 2],
      [3, 4],
    ],
  ],
  [3, 1, [[1], [2], [3]]],
  [3, 3, [[1, 2, 3]]],
  [3, 1000, [[1, 2, 3]]],
] as const) {
  test(`${count} plants by ${limit} are ${pages.length} pages, linked one to the next`, async (t) => {
    const service = await startReadable(t, manyPlants(count));
    assert.deepEqual(await walk(service, `/plants?limit=${limit}`), pages);
  });
}

test("a page has 100 plants by default and 1,000 at most", async (t) => {
  const service = await startReadable(t, manyPlants(2500));
  assert.deepEqual(
    (await walk(service, "/plants?limit=1000")).map(({ length }) => length),
    [1000, 1000, 500],
  );
  const first = await read(service, "/plants");
  assert.equal(JSON.parse(first.text).length, 100);
  assert.equal(nextOf("/plants", first), "/plants?limit=100&after=100");
});

test("the link is right with a base path, and through a proxy with another path", async (t) => {
  const service = await startReadable(t, manyPlants(2), { basePath: "/garden" });
  const answer = await read(service, "/garden/plants?limit=1");
  assert.equal(nextOf("/garden/plants?limit=1", answer), "/garden/plants?limit=1&after=1");
  assert.equal(nextOf("/outside/plants?limit=1", answer), "/outside/plants?limit=1&after=1");
});

test("the page after the last plant is empty, and later has the plants that were created since", async (t) => {
  const service = await startReadable(t, manyPlants(3));
  assert.deepEqual(await walk(service, "/plants?after=3"), [[]]);
  await service.store.create({ id: 4n, name: "new" });
  assert.deepEqual(await walk(service, "/plants?after=3"), [[4]]);
});

test("pages that are read while plants are created miss none and repeat none", async (t) => {
  const service = await startReadable(t, manyPlants(20));
  const seen: number[] = [];
  let path: string | undefined = "/plants?limit=7";
  for (let id = 1000n; path !== undefined; id++) {
    const created = id < 1050n ? service.store.create({ id, name: "meanwhile" }) : undefined;
    const answer = await read(service, path);
    await created;
    seen.push(...JSON.parse(answer.text).map((plant: { id: number }) => plant.id));
    path = nextOf(path, answer);
  }
  const { text } = await read(service, "/plants?limit=1000");
  const all = JSON.parse(text).map((plant: { id: number }) => plant.id);
  assert.deepEqual(seen, all.slice(0, seen.length));
  assert.ok(seen.length >= 20);
  assert.equal(new Set(seen).size, seen.length);
});

test("a page ends at about 1 MiB, and the next one continues", async (t) => {
  const service = await startReadable(t, manyPlants(5, 600_000));
  assert.deepEqual(await walk(service, "/plants?limit=1000"), [[1, 2], [3, 4], [5]]);
});

const QUERIES: readonly [query: string, error: number][] = [
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
  ["after=1&after=2", 40007],
  ["after=4", 40008],
  ["after=-1", 40008],
  ["after=9223372036854775807", 40008],
];

test("an invalid limit and an unknown cursor have error numbers of their own", async (t) => {
  const service = await startReadable(t, manyPlants(3));
  for (const [query, error] of QUERIES) {
    await t.test(`/plants?${query} is answered ${error}`, async () => {
      for (const accept of ["application/json", "application/x-ndjson"]) {
        const answer = await read(service, `/plants?${query}`, { Accept: accept });
        assertError(answer, error);
        assertCommonHeaders(answer);
      }
    });
  }
  const long = "y".repeat(5000);
  const { text } = await read(service, `/plants?limit=1&limit=2&after=${long}`);
  const { message } = JSON.parse(text);
  assert.match(message, /limit.*"1,2".*after.*"yyy/);
  assert.ok(message.length < 300); // the value is cut
});
