import assert from "node:assert/strict";
import { test } from "node:test";
import { formatHostPort } from "../../src/core/host-port.ts";

const FORMATTED: readonly [host: string, port: number, text: string][] = [
  ["127.0.0.1", 8080, "127.0.0.1:8080"],
  ["localhost", 0, "localhost:0"],
  ["::", 65_535, "[::]:65535"],
  ["::1", 80, "[::1]:80"],
  ["::ffff:127.0.0.1", 80, "[::ffff:127.0.0.1]:80"],
];

for (const [host, port, text] of FORMATTED) {
  test(`${host} and ${port} are ${text}, which is valid in a URL`, () => {
    assert.equal(formatHostPort(host, port), text);
    assert.ok(URL.canParse(`http://${text}/`));
  });
}
