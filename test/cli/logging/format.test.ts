import assert from "node:assert/strict";
import { test } from "node:test";
import { generateToken } from "../../../src/auth/token.ts";
import { type Format, JSON_FORMAT, textFormat } from "../../../src/cli/logging/format.ts";
import { wantsColours } from "../../../src/cli/logging/standard-error.ts";
import type { RequestMessage } from "../../../src/index.ts";

const TIME = Date.UTC(2026, 10, 21, 4, 5, 6, 7);

const REQUEST: RequestMessage = {
  method: "POST",
  path: "/plants",
  status: 400,
  error: 40005,
  durationMs: 1.23456,
  bodyBytes: 47,
  sentBytes: undefined,
  requestId: "abc-1",
  token: "gardener",
  operation: "createPlant",
  cut: false,
};

test("a request in JSON has every member, under a name that stays", () => {
  assert.deepEqual(JSON.parse(JSON_FORMAT.request(REQUEST, TIME)), {
    time: "2026-11-21T04:05:06.007Z",
    level: "info",
    event: "request",
    method: "POST",
    path: "/plants",
    status: 400,
    error: 40005,
    durationMs: 1.235,
    bytes: 47,
    requestId: "abc-1",
    token: "gardener",
  });
});

test("an id of every character that one may have stays what it is", () => {
  const requestId = "ABCXYZabcxyz0123456789._~+/=:@-";
  assert.equal(
    JSON.parse(JSON_FORMAT.request({ ...REQUEST, requestId }, TIME)).requestId,
    requestId,
  );
});

test("what never became a request has nulls, and a success no error", () => {
  const nothing = { method: undefined, path: undefined, durationMs: undefined, token: undefined };
  const line = JSON_FORMAT.request({ ...REQUEST, ...nothing, status: 200, error: undefined }, TIME);
  const { method, path, durationMs, token, ...rest } = JSON.parse(line);
  assert.deepEqual([method, path, durationMs, token], [null, null, null, null]);
  assert.equal("error" in rest, false);
});

const DURATIONS: readonly [ms: number, written: string][] = [
  [0, "0.000"],
  [0.0004, "0.000"],
  [0.005, "0.005"],
  [1.05, "1.050"],
  [0.9996, "1.000"],
  [75_000.1, "75000.100"],
];

for (const [durationMs, written] of DURATIONS) {
  test(`a request of ${durationMs} ms is one of ${written} in JSON`, () => {
    const line = JSON_FORMAT.request({ ...REQUEST, durationMs }, TIME);
    assert.equal(/"durationMs":([^,]+),/.exec(line)?.[1], written);
    JSON.parse(line);
  });
}

test("a stream says how much of it was sent, which is not the body of its request", () => {
  const stream = { ...REQUEST, bodyBytes: 0, sentBytes: 5_000_000 };
  const { bytes, sent } = JSON.parse(JSON_FORMAT.request(stream, TIME));
  assert.deepEqual([bytes, sent], [0, 5_000_000]);
  assert.match(textFormat(false).request(stream, TIME), / 5000000 B /);
});

test("a stream that broke off is a 200 that says so", () => {
  const request = { ...REQUEST, status: 200, error: undefined };
  assert.equal(JSON.parse(JSON_FORMAT.request({ ...request, cut: true }, TIME)).cut, true);
  assert.equal("cut" in JSON.parse(JSON_FORMAT.request({ ...request, cut: false }, TIME)), false);
  assert.match(textFormat(false).request({ ...request, cut: true }, TIME), / 200 cut 1\.2 ms /);
});

test("a notice in JSON has its message and its fields", () => {
  const fields = { url: "http://[::1]:8080", plants: 7, admin: undefined };
  const notice = { level: "info", event: "listening", message: "listening", fields } as const;
  assert.deepEqual(JSON.parse(JSON_FORMAT.notice(notice, TIME)), {
    time: "2026-11-21T04:05:06.007Z",
    level: "info",
    event: "listening",
    message: "listening",
    url: "http://[::1]:8080",
    plants: 7,
    admin: null,
  });
});

test("text is short, and coloured only where colours are wanted", () => {
  const plain = textFormat(false).request(REQUEST, TIME);
  assert.match(plain, /^[0-9]{2}:[0-9]{2}:06 POST \/plants 400 40005 1\.2 ms 47 B gardener abc-1$/);
  const coloured = textFormat(true).request(REQUEST, TIME);
  assert.equal(coloured.replace(SGR, ""), plain);
  assert.notEqual(coloured, plain);
});

// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what colours are
const SGR = /\u001b\[[0-9]+m/g;

/** What has forged a log somewhere, or somebody's terminal. */
const NAUGHTY: readonly [what: string, text: string][] = [
  ["a line feed", "a\n{}"],
  ["a carriage return", "a\r\nb"],
  ["NUL", "a\0b"],
  ["a sequence that clears the screen", "\u001b[2J\u001b[H"],
  ["a sequence of one C1 byte", "\u009b31m"],
  ["a title sequence", "\u001b]0;owned\u0007"],
  ["DEL and backspace", "\u007f\b\b"],
  ["the next-line control", "a\u0085b"],
  ["a line and a paragraph separator", "a\u2028b\u2029c"],
  ["bidirectional overrides", "\u202e\u2066gpj.exe\u2069\u202c"],
  ["marks of direction", "\u061c\u200e\u200f"],
  ["a byte order mark", "\ufeffa"],
  ["lone surrogates", "\ud83c-\udf31"],
  ["quotes and backslashes", 'a"b\\","level":"error'],
  ["a vertical tab and a form feed", "\v\f"],
];

const FORMATS: readonly [name: string, format: Format][] = [
  ["JSON", JSON_FORMAT],
  ["text", textFormat(false)],
  ["coloured text", textFormat(true)],
];

const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not get out
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

for (const [name, format] of FORMATS) {
  for (const [what, text] of NAUGHTY) {
    test(`${what} forges no line and moves no cursor in ${name}`, () => {
      const request = { ...REQUEST, method: text, path: text, token: text };
      const notice = { level: "warn", event: "x", message: text, fields: { path: text } } as const;
      for (const line of [format.request(request, TIME), format.notice(notice, TIME)]) {
        assert.doesNotMatch(line.replace(SGR, ""), UNSAFE);
        assert.equal(Buffer.from(line).toString(), line); // no lone surrogate
        if (name === "JSON") assert.equal(JSON.parse(line).path, text);
      }
    });
  }
}

for (const [name, format] of FORMATS) {
  test(`a token that is not where it belongs does not get into the log in ${name}`, () => {
    const token = generateToken();
    const message = `not found: /plants/${token}?`;
    const request = { ...REQUEST, path: `/plants/${token}/${token}`, requestId: token };
    const notice = { level: "warn", event: "x", message, fields: { requestId: token } } as const;
    for (const line of [format.request(request, TIME), format.notice(notice, TIME)]) {
      assert.ok(!line.includes(token), line);
      assert.ok(line.includes("/plants/pst_..."), line);
    }
  });
}

test("what only begins like a token stays", () => {
  const path = "/plants/pst_7";
  assert.equal(JSON.parse(JSON_FORMAT.request({ ...REQUEST, path }, TIME)).path, path);
});

const COLOURS: readonly [env: Record<string, string>, terminal: boolean, wanted: boolean][] = [
  [{}, true, true],
  [{}, false, false],
  [{ NO_COLOR: "1" }, true, false],
  [{ NO_COLOR: "" }, true, true],
  [{ TERM: "dumb" }, true, false],
  [{ FORCE_COLOR: "1" }, false, true],
  [{ FORCE_COLOR: "" }, false, false],
  [{ FORCE_COLOR: "" }, true, true],
  [{ FORCE_COLOR: "0" }, true, false],
  [{ FORCE_COLOR: "false" }, true, false],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, false, true],
];

for (const [env, isTerminal, wanted] of COLOURS) {
  const where = isTerminal ? "on a terminal" : "elsewhere";
  test(`${JSON.stringify(env)} ${where} ${wanted ? "wants" : "wants no"} colours`, () => {
    assert.equal(wantsColours(env, isTerminal), wanted);
  });
}
