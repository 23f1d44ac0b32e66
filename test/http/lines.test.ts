/** Reads pass on the lines of the store, byte for byte. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseNewPlant } from "../../src/core/plant.ts";
import { createRequestListener, type PlantService } from "../../src/index.ts";
import { nextOf, read, startReadable } from "../support/reading.ts";
import { serve } from "../support/serve.ts";
import { send } from "../support/service.ts";
import { writeLog } from "../support/stores.ts";
import { collectWarnings } from "../support/watch.ts";

/** Plants as this program and others write them. */
const LINES: readonly string[] = [
  '{"id":1,"name":"delete \\u007f","tag":"\\u0061\\/\\u2028"}',
  '{"id":-9223372036854775808,"name":"raw \u007f \u0085 \u2028 \u202e \ufeff"}',
  '{"id":9007199254740993,"name":"植物 \u{1f33f} \\ud83c","tag":""}',
  '{"id":4,"name":"Fenêtre"}',
  '{"id":5,"name":"plain","tag":"indoor"}',
];
const IDS = LINES.map((line) => parseNewPlant(Buffer.from(line)).id);
const NDJSON = { Accept: "application/x-ndjson" };

const bytesOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join("");

test("a plant is read as it is in the log", async (t) => {
  const service = await startReadable(t, [], {
    prepare: async (folder) => writeLog(folder, bytesOf(LINES)),
  });
  for (const [at, id] of IDS.entries()) {
    const line = LINES[at] as string;
    const length = String(Buffer.byteLength(line));
    for (const method of ["GET", "HEAD"]) {
      const { text, headers } = await read(service, `/plants/${id}`, {}, method);
      assert.equal(text, method === "GET" ? line : "");
      assert.equal(headers.get("content-length"), length);
    }
  }
});

for (const limit of [2, 5]) {
  test(`pages and streams of ${limit} plants have the lines of the log`, async (t) => {
    const service = await startReadable(t, [], {
      prepare: async (folder) => writeLog(folder, bytesOf(LINES)),
    });
    let path: string | undefined = `/plants?limit=${limit}`;
    for (let from = 0; path !== undefined; from += limit) {
      const lines = LINES.slice(from, from + limit);
      const page = await read(service, path);
      assert.equal(page.text, `[${lines.join()}]`);
      const head = await read(service, path, {}, "HEAD");
      assert.equal(head.headers.get("content-length"), String(Buffer.byteLength(page.text)));
      assert.equal(head.headers.get("link"), page.headers.get("link"));
      assert.equal((await read(service, path, NDJSON)).text, bytesOf(lines));
      path = nextOf(path, page);
      const isLast = from + limit >= LINES.length;
      const next = `/plants?limit=${limit}&after=${IDS[from + limit - 1]}`;
      assert.equal(path, isLast ? undefined : next);
    }
  });
}

/** FAKE: a store whose slices have any length, which counts what it is asked for. */
function makeStore() {
  const asked: string[] = [];
  const plants: PlantService = {
    create: async () => "created",
    getLine: async (id) => {
      asked.push("getLine");
      const at = IDS.indexOf(id);
      return at < 0 ? undefined : new TextEncoder().encode(LINES[at]);
    },
    async *listLines() {
      for (const lines of [[], LINES.slice(0, 2), LINES.slice(2, 3), [], LINES.slice(3)]) {
        asked.push("listLines");
        yield new TextEncoder().encode(bytesOf(lines));
      }
    },
  };
  return { asked, plants };
}

for (const [path, accept, expected, calls] of [
  ["/plants/1", {}, LINES[0], 1],
  ["/plants/9", {}, undefined, 1],
  ["/plants", {}, `[${LINES.join()}]`, 5],
  ["/plants?limit=2", {}, `[${LINES.slice(0, 2).join()}]`, 3],
  ["/plants?limit=3", NDJSON, bytesOf(LINES.slice(0, 3)), 5],
] as const) {
  const what = `${path}${accept === NDJSON ? " as a stream" : ""}`;
  test(`${what} asks the store ${calls} times`, async (t) => {
    const store = makeStore();
    const tokens = { verify: () => ({ name: "test", scopes: ["read" as const] }) };
    const { url } = await serve(t, createRequestListener({ plants: store.plants, tokens }));
    const headers = { Authorization: "Bearer any", ...accept };
    const answer = await send(`${url}${path}`, { headers });
    if (expected === undefined) assert.equal(answer.status, 404);
    else assert.equal(answer.text, expected);
    assert.equal(store.asked.length, calls);
  });
}

const WRONG_SLICES: readonly [what: string, slices: readonly string[]][] = [
  ["a line without its line feed", [LINES.slice(3).join("\n")]],
  ["lines whose last one is cut", [bytesOf(LINES).slice(0, -9)]],
  ["lines with the name first", ['{"name":"a","id":1}\n{"name":"b","id":2}\n']],
];

for (const [what, slices] of WRONG_SLICES) {
  test(`a page of a store that lists ${what} is answered 500, and the warning names listLines`, async (t) => {
    const { plants } = makeStore();
    async function* listLines() {
      for (const slice of slices) yield new TextEncoder().encode(slice);
    }
    const tokens = { verify: () => ({ name: "test", scopes: ["read" as const] }) };
    const listener = createRequestListener({ plants: { ...plants, listLines }, tokens });
    const { url } = await serve(t, listener);
    const warnings = collectWarnings(t);
    const { status } = await send(`${url}/plants?limit=1`, {
      headers: { Authorization: "Bearer any" },
    });
    assert.equal(status, 500);
    assert.deepEqual(
      warnings.map(({ cause }) => String(cause).includes("listLines")),
      [true],
    );
  });
}
