/** Reads pass on the lines of the log, byte for byte. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseNewPlant } from "../../src/core/plant.ts";
import { nextOf, read, startReadable } from "../support/reading.ts";
import { writeLog } from "../support/stores.ts";

/** Plants as this program and others write them. */
const LINES: readonly string[] = [
  '{"id":1,"name":"delete \\u007f","tag":"\\u0061\\/\\u2028"}',
  '{"id":-9223372036854775808,"name":"raw \u007f \u0085 \u2028 \u202e \ufeff"}',
  '{"id":9007199254740993,"name":"植物 \u{1f33f} \\ud83c","tag":""}',
  '{"id":4,"name":"Fenêtre"}',
  '{"id":5,"name":"plain","tag":"indoor"}',
];
const NDJSON = { Accept: "application/x-ndjson" };

test("plants, pages and streams have the lines of the log", async (t) => {
  const bytesOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join("");
  const ids = LINES.map((line) => parseNewPlant(Buffer.from(line)).id);
  const service = await startReadable(t, [], {
    prepare: async (folder) => writeLog(folder, bytesOf(LINES)),
  });
  for (const [at, id] of ids.entries()) {
    assert.equal((await read(service, `/plants/${id}`)).text, LINES[at]);
  }
  for (const limit of [2, 5]) {
    let path: string | undefined = `/plants?limit=${limit}`;
    for (let from = 0; path !== undefined; from += limit) {
      const lines = LINES.slice(from, from + limit);
      const page = await read(service, path);
      assert.equal(page.text, `[${lines.join()}]`);
      const head = await read(service, path, {}, "HEAD");
      for (const name of ["content-length", "link"]) {
        assert.equal(head.headers.get(name), page.headers.get(name));
      }
      assert.equal((await read(service, path, NDJSON)).text, bytesOf(lines));
      path = nextOf(path, page);
      const next = `/plants?limit=${limit}&after=${ids[from + limit - 1]}`;
      assert.equal(path, from + limit < LINES.length ? next : undefined);
    }
  }
});
