import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { wantsStream } from "../../src/http/reads.ts";

const CASES: readonly [accept: string | undefined, isPreferred: boolean][] = [
  [undefined, false],
  ["", false],
  ["*/*", false],
  ["application/*", false],
  ["application/json", false],
  ["text/html", false],
  ["application/x-ndjson", true],
  ["Application/X-NDJSON", true],
  [" application/x-ndjson ; q=0.5 ", true],
  ["application/x-ndjson;charset=utf-8", true],
  ["application/x-ndjson, application/json", false],
  ["application/x-ndjson, */*", false],
  ["application/x-ndjson, */*;q=0.1", true],
  ["application/x-ndjson;q=0.2, application/json;q=0.1", true],
  ["application/x-ndjson;q=0.1, application/json;q=0.2", false],
  ["application/x-ndjson;q=0", false],
  ["application/json;q=0, */*", true],
  ["application/json;q=0, application/*;q=0.5", true],
  ["*/*, application/x-ndjson;q=0.9", false],
  ["*/*;q=0.8, application/x-ndjson;q=0.9", true],
  ["application/x-ndjson;q=0.001, text/html", true],
  ["application/x-ndjson;q=nonsense", true],
  ["application/x-ndjsonx", false],
  ["text/x-ndjson", false],
  [",,;,", false],
];

for (const [accept, isPreferred] of CASES) {
  test(`Accept: ${accept} ${isPreferred ? "prefers" : "does not prefer"} a stream to a page`, () => {
    const request = { headers: { accept }, httpVersion: "1.1" } as IncomingMessage;
    assert.equal(wantsStream(request), isPreferred);
  });
}
