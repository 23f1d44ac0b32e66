/** The lines of the log: each is one line, moves no cursor, and holds no token. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Format, jsonFormat, textFormat } from "../../src/cli/log.ts";
import { formatToken } from "../../src/core/token.ts";
import type { RequestMessage } from "../../src/index.ts";
import { anyString } from "../support/arbitraries.ts";
import { CONTROLS } from "./table.ts";

const REQUEST: RequestMessage = {
  method: "POST",
  path: "/plants",
  client: "192.0.2.1",
  status: 400,
  error: 40005,
  durationMs: 1.23456,
  bodyBytes: 47,
  requestId: "abc-1",
  token: "gardener",
  operation: "createPlant",
  cut: false,
};
const FORMATS: readonly [name: string, format: Format][] = [
  ["JSON", jsonFormat],
  ["text", textFormat],
];

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
const SGR = /\u001b\[[0-9]+m/g;

/** The line of an event without its line feed, colours and half a surrogate pair: one that is safe to show. */
function lineOf(format: Format, event: Parameters<Format>[0]): string {
  const line = format(event);
  assert.match(line, /^[^\n]*\n$/);
  assert.equal(Buffer.from(line).toString(), line);
  assert.ok(line.length < 16 * 1024 && Buffer.byteLength(line) < 16 * 1024, "Docker would cut it");
  const shown = line.slice(0, -1).replace(SGR, "");
  assert.doesNotMatch(shown, CONTROLS);
  return shown;
}

/** The lines of a request and of a notice with this text in each place. */
function linesWith(format: Format, text: string): string[] {
  const request = { ...REQUEST, method: text, path: text, token: text, client: text };
  const notice = { level: "warn", event: "x", message: text, fields: { path: text } } as const;
  return [lineOf(format, request), lineOf(format, notice)];
}

const UNPARSED = { method: undefined, path: undefined, token: undefined, client: undefined };

const JSON_LINES: readonly [says: string, changes: Partial<RequestMessage>, members: object][] = [
  ["every documented member", {}, {}],
  [
    "the milliseconds of a long request",
    { durationMs: 2 ** 32 + 0.125 },
    { durationMs: 4294967296.125 },
  ],
  ["its id unchanged", { requestId: "AZaz09._~+/=:@-" }, { requestId: "AZaz09._~+/=:@-" }],
  ["that a stream broke off", { error: undefined, cut: true }, { error: undefined, cut: true }],
  [
    "nulls if it was never parsed",
    { ...UNPARSED, durationMs: undefined },
    { method: null, path: null, durationMs: null, token: null, client: null },
  ],
];

for (const [says, changes, members] of JSON_LINES) {
  test(`a request in JSON has ${says}`, (t) => {
    t.mock.method(Date, "now", () => Date.UTC(2026, 10, 21, 4, 5, 6, 7));
    const { operation: _, bodyBytes: bytes, cut: __, ...rest } = REQUEST;
    const common = { time: "2026-11-21T04:05:06.007Z", level: "info", event: "request", bytes };
    const expected = { ...common, ...rest, durationMs: 1.235, ...members };
    const known = Object.entries(expected).filter(([, value]) => value !== undefined);
    const line = lineOf(jsonFormat, { ...REQUEST, ...changes });
    assert.deepEqual(JSON.parse(line), Object.fromEntries(known));
  });
}

test("a notice in JSON has its message and its fields", () => {
  const notice = { level: "info", event: "listening", message: "listening" } as const;
  const fields = { url: "http://[::1]:8080", plants: 7, admin: undefined };
  const { time, ...members } = JSON.parse(lineOf(jsonFormat, { ...notice, fields }));
  assert.equal(new Date(time).toISOString(), time);
  assert.deepEqual(members, { ...notice, ...fields, admin: null });
});

test("the text of a request names its figures", () => {
  const rest = "1.2 ms, 47 B, token gardener, client 192.0.2.1, id abc-1";
  const [line, cut] = [{}, { status: 200, error: undefined, cut: true }].map((changes) =>
    lineOf(textFormat, { ...REQUEST, ...changes }),
  );
  assert.match(`${line}`, /^[0-9]{2}:[0-9]{2}:[0-9]{2} /);
  assert.equal(line?.slice(9), `POST /plants 400 (error 40005) ${rest}`);
  assert.equal(cut?.slice(9), `POST /plants 200 (cut) ${rest}`);
});

/** Texts that have forged lines of logs or controlled terminals. */
const NAUGHTY = [
  "a\r\n{}",
  "a\0b",
  "\u001b[2J\u001b[H\u009b31m",
  "\u001b]0;owned\u0007",
  "\u007f\b\b\v\f",
  "a\u0085b\u2028b\u2029c",
  "\u202e\u2066gpj.exe\u2069\u202c\u061c\u200e\u200f\ufeff",
  "\ud83c-\udf31",
  'a"b\\","level":"error',
];

test("a hostile text forges no line and moves no cursor; in JSON it keeps its value, if it is short", () => {
  const units = Array.from({ length: 0x300 }, (_, unit) => `a${String.fromCharCode(unit)}b`);
  for (const text of [...NAUGHTY, ...units]) {
    linesWith(textFormat, text);
    for (const line of linesWith(jsonFormat, text)) assert.equal(JSON.parse(line).path, text);
  }
  for (const character of ["x", "\u0085", "\u0001", "\ud83c", "\u202e", '"', "…"]) {
    const text = character.repeat(16 * 1024);
    for (const [, format] of FORMATS) lineOf(format, { ...REQUEST, path: text, client: text });
  }
});

const token = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((random) => {
  return formatToken(Buffer.from(random));
});

/** What stands beside a token: above all what could be taken for a part of one. */
const part = fc.oneof(
  fc.constantFrom("pst_", "/", "%", "_", "7"),
  fc.nat(42).map((length) => `pst_${"a".repeat(length)}`),
  anyString,
);
const neighbours = fc.array(part, { maxLength: 4 }).map((parts) => parts.join(""));

for (const [name, format] of FORMATS) {
  test(`wherever a token is in a text, no line in ${name} holds its secret part`, () => {
    const tokens = fc.array(fc.tuple(neighbours, token), { minLength: 1, maxLength: 3 });
    const property = fc.property(tokens, neighbours, fc.nat(1100), (parts, end, left) => {
      const text = "x".repeat(left) + parts.flat().join("") + end; // a long text is cut, also in a token
      const requestId = text.slice(0, 64).replace(/[^\w.~+/=:@-]/g, ""); // as an id may be
      for (const line of [...linesWith(format, text), lineOf(format, { ...REQUEST, requestId })]) {
        for (const [, each] of parts) assert.ok(!line.includes(each.slice(4, 12)), line);
      }
    });
    fc.assert(property, { numRuns: 200 });
  });
}
