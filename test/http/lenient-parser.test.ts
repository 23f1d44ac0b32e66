/**
 * Requests that two programs could read in two ways, sent to a Node whose HTTP parser is lenient
 * (`--insecure-http-parser`): a request that is hidden in the body is never carried out.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { describe, test } from "node:test";
import { readHead } from "../../src/http/head.ts";
import { createRequestListener, createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { assertError, encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { sendRaw } from "../support/raw.ts";
import { freePort, serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { TIMEOUT } from "../support/watch.ts";

const BODY = '{"id":1,"name":"outer"}';
const LENGTH = `Content-Length: ${BODY.length}`;
const CHUNKS = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
const HIDDEN = '{"id":2,"name":"hidden"}';

type Doubtful = readonly [what: string, headers: readonly string[], body: string];

/** Heads that a lenient parser accepts, and the body as it then reads it. */
const SEEN: readonly Doubtful[] = [
  ["a length, then chunks", ["Content-Length: 999", "Transfer-Encoding: chunked"], CHUNKS],
  ["chunks, then a length", ["Transfer-Encoding: chunked", "Content-Length: 999"], CHUNKS],
  ["a space before the colon of chunks", ["Transfer-Encoding : chunked"], CHUNKS],
  ["two spaces there, and a length", [LENGTH, "Transfer-Encoding  : chunked"], CHUNKS],
  ["a space before the colon of a length", [`Content-Length : ${BODY.length}`], BODY],
  ["chunks in another coding", ["Transfer-Encoding: gzip, chunked"], CHUNKS],
];
/** More such heads, whose fault only the parser can see. */
const UNSEEN: readonly Doubtful[] = [
  ["a bare LF before a length", [`X: a\n${LENGTH}`], BODY],
  ["a folded header", ["Transfer-Encoding:\r\n chunked"], CHUNKS],
  ["a control character in a value", [LENGTH, "X: a\x01b"], BODY],
];

/** A create whose end is in doubt, and the create that begins where one reading ends. */
function encode(token: string, [, headers, body]: Doubtful): Buffer {
  const start = `POST /plants HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`;
  const lines = ["Content-Type: application/json", ...headers].map((line) => `${line}\r\n`);
  const doubtful = Buffer.from(`${start}${lines.join("")}\r\n${body}`, "latin1");
  return Buffer.concat([doubtful, encodeRequest({ token }, { body: HIDDEN })]);
}

async function assertRefused(port: number, token: string, doubtful: Doubtful): Promise<void> {
  const answers = await sendRaw(port, encode(token, doubtful));
  assert.equal(answers.length, 1, doubtful[0]);
  for (const answer of answers) assertError(answer, 40001);
}

test("under NODE_OPTIONS=--insecure-http-parser the command refuses requests that can be read in two ways", {
  ...TIMEOUT,
}, async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "test" });
  const adminPort = await freePort();
  const args = ["--data", folder, "--admin", `127.0.0.1:${adminPort}`];
  const env = { NODE_OPTIONS: "--insecure-http-parser" };
  const server = await startServer(t, args, { env });
  for (const doubtful of [...SEEN, ...UNSEEN]) {
    await assertRefused(server.port, token, doubtful);
    await assertRefused(adminPort, token, doubtful);
  }
  assert.equal(readFileSync(join(folder, "plants.jsonl"), "utf8"), "");
  // With one reading, both are stored.
  await sendRaw(server.port, encode(token, ["", [LENGTH], BODY]), 2);
  assert.equal(readFileSync(join(folder, "plants.jsonl"), "utf8"), `${BODY}\n${HIDDEN}\n`);
});

describe("in a server with a lenient parser, the mounted listener", TIMEOUT, () => {
  for (const doubtful of SEEN) {
    test(`refuses ${doubtful[0]}, and carries out nothing after it`, async (t) => {
      const { store: plants, token, logLines } = await startService(t);
      const tokens = { verify: () => ({ name: "test", scopes: ["write"] as const }) };
      const listener = createRequestListener({ plants, tokens });
      const { port } = await serve(t, listener, { insecureHTTPParser: true });
      await assertRefused(port, token, doubtful);
      assert.deepEqual(logLines(), []);
    });
  }
});

/** A request as another parser might pass it on. */
const RAW: readonly [rawHeaders: readonly string[], isGood: boolean][] = [
  [["content-length", "19"], true],
  [["Transfer-Encoding", "Chunked"], true],
  [["Content-Length", "0019"], true],
  [["Content-Length", ""], false],
  [["Content-Length", "+19"], false],
  [["Content-Length", "19, 19"], false],
  [["Content-Length", "1e1"], false],
  [["Content-Length", "19", "content-length", "19"], false],
  [["Content-Length", "x", "content-length", "19"], false],
  [["Transfer-Encoding", "chunked", "transfer-encoding", "chunked"], false],
  [["Transfer-Encoding", "chunked", "Content-Length", "19"], false],
  [["Transfer-Encoding\t", "chunked"], false],
  [[" ", "chunked"], false],
];

test("a header is judged as it was sent, with any parser", () => {
  for (const [rawHeaders, isGood] of RAW) {
    for (const isOurs of [true, false]) {
      const request = { httpVersion: "1.1", rawHeaders: ["Host", "a", ...rawHeaders] };
      const { fault } = readHead(request as unknown as IncomingMessage, isOurs);
      assert.equal(fault === undefined, isGood, JSON.stringify(rawHeaders));
    }
  }
});

test("a mounted listener accepts requests without raw headers, or with those of HTTP/2", () => {
  for (const request of [
    { httpVersion: "1.1", rawHeaders: [] },
    { httpVersion: "1.1" },
    { httpVersion: "2.0", httpVersionMajor: 2, rawHeaders: [":method", "POST"] },
  ]) {
    assert.equal(readHead(request as unknown as IncomingMessage, false).fault, undefined);
  }
});
