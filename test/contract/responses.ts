/** What every response of the service has, whatever the request was: test/contract/runner checks it after each row. */
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { ERRORS } from "../../src/core/errors.ts";
import { OPENAPI } from "../../src/index.ts";
import type { Ask, Case, Send } from "../cases/case.ts";
import { ROOT } from "../support/package.ts";
import type { RawAnswer } from "../support/raw.ts";

/** Headers of every response with a body; the connection decides about `keep-alive`. */
const COMMON = ["cache-control", "connection", "date", "x-content-type-options", "x-request-id"];

/** Headers that come with an error. */
const WITH: Readonly<Record<number, Readonly<Record<string, string | RegExp>>>> = {
  40101: { "www-authenticate": 'Bearer realm="plant-store"' },
  40102: { "www-authenticate": 'Bearer realm="plant-store", error="invalid_token"' },
  40301: {
    "www-authenticate":
      /^Bearer realm="plant-store", error="insufficient_scope", scope="(read|write)"$/,
  },
  40501: { allow: /^GET, HEAD(, POST)?$/ },
  41501: { accept: "application/json" },
  41502: { "accept-encoding": "identity" },
  ...Object.fromEntries([1, 2, 3, 4, 6, 7].map((n) => [50300 + n, { "retry-after": "1" }])),
};

/** Paths, and what a stack has. */
const PRIVATE = [ROOT, tmpdir(), "plants.jsonl", "node:", ".ts:"];

const NUMBERS = new Set<number>(Object.values(ERRORS));

/** What a row got: the response, its request, and the number that the row expects. */
export interface Got {
  readonly answer: RawAnswer;
  readonly send: Send | undefined;
  readonly expected: number;
}

/** @param tokens none of them may be in the text. */
export function assertResponse(
  { answer, send, expected }: Got,
  row: Case,
  basePath: string,
  tokens: readonly string[],
): void {
  const { status, headers, text } = answer;
  const ask = typeof send === "string" ? undefined : send;
  const isHead = ask?.method === "HEAD";
  if (expected < 1000) assert.equal(status, expected, text.slice(0, 500));
  else assertErrorBody(answer, expected);
  if (status === 100) return;
  for (const secret of [...tokens, ...PRIVATE]) {
    assert.ok(!text.includes(secret), `the response contains ${secret}: ${text}`);
  }
  assert.match(headers.get("x-request-id") ?? "", /^[\w.~+/=:@-]{1,64}$/);
  assert.equal(headers.get("cache-control"), "no-store");
  assert.equal(headers.get("x-content-type-options"), "nosniff");
  const isStream = headers.get("content-type") === "application/x-ndjson";
  if (isStream) assert.equal(headers.get("transfer-encoding"), "chunked");
  else if (status !== 204) {
    assert.equal(headers.get("content-type"), "application/json");
    if (!isHead) assert.equal(headers.get("content-length"), String(Buffer.byteLength(text)));
  }
  const extra = WITH[expected] ?? {};
  assertHeaders(headers, extra);
  const known = [...COMMON, "content-type", "content-length", "transfer-encoding", "keep-alive"];
  const named = [...Object.keys(extra), ...Object.keys(row.headers ?? {})];
  const byHead = isHead ? ["link", "allow", "www-authenticate"] : [];
  const isKnown = (name: string) => [...known, ...named, ...byHead].includes(name);
  assert.deepEqual(
    [...headers.keys()].filter((name) => !isKnown(name)),
    [],
    "unknown headers",
  );

  const operation = operationOf(ask, basePath);
  if (operation !== undefined) {
    const { responses } = operation;
    assert.ok(responses[status] ?? responses.default, `${status} is in the OpenAPI document`);
  }
  if (isHead) assert.equal(text, "");
}

function assertErrorBody({ status, text }: RawAnswer, expected: number): void {
  const body = JSON.parse(text);
  assert.deepEqual(Object.keys(body), ["error", "message"], text);
  assert.equal(body.error, expected, text.slice(0, 500));
  assert.equal(typeof body.message, "string");
  assert.notEqual(body.message, "");
  assert.ok(NUMBERS.has(expected), `${expected} is not in the table of errors`);
  assert.equal(status, Math.floor(expected / 100));
}

/** What the OpenAPI document says about an operation; `undefined` if the request asks for none. */
function operationOf(ask: Ask | undefined, basePath: string): Described | undefined {
  if (ask === undefined) return undefined;
  const { method = "POST", target = "/plants" } = ask;
  const path = target.replace(/^https?:\/\/[^/?]*/i, "").replace(/\?.*/s, "");
  if (!path.startsWith(basePath)) return undefined;
  const known = path.slice(basePath.length).replace(/^\/plants\/(-?\d+|<\d>)$/, "/plants/{id}");
  return PATHS[known]?.[method === "HEAD" ? "get" : method.toLowerCase()];
}

export function assertHeaders(
  headers: RawAnswer["headers"],
  expected: NonNullable<Case["headers"]>,
): void {
  for (const [name, value] of Object.entries(expected)) {
    const got = headers.get(name);
    if (value instanceof RegExp) assert.match(got ?? "", value, name);
    else assert.equal(got, value, name);
  }
}

interface Described {
  readonly responses: Readonly<Record<string, object | undefined>>;
}

const PATHS = OPENAPI.paths as Record<string, Record<string, Described>>;
