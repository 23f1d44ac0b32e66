import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { type Format, jsonFormat, textFormat } from "../../src/cli/log.ts";
import { formatToken } from "../../src/core/token.ts";
import type { RequestMessage } from "../../src/index.ts";
import { anyString } from "../support/arbitraries.ts";

const TIME = Date.UTC(2026, 10, 21, 4, 5, 6, 7);

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

const TIMES: readonly [time: number, written: string][] = [
  [TIME + 0.999, "2026-11-21T04:05:06.007Z"],
  [TIME + 992.999, "2026-11-21T04:05:06.999Z"],
  [TIME + 993, "2026-11-21T04:05:07.000Z"],
  [TIME + 1003.5, "2026-11-21T04:05:07.010Z"],
  [Date.UTC(2027, 0, 1) - 0.001, "2026-12-31T23:59:59.999Z"],
];

/** The line of an event: one line, without half a surrogate pair. */
function lineOf(format: Format, event: Parameters<Format>[0], time = TIME): string {
  const line = format(event, time);
  assert.doesNotMatch(line, /\n/);
  assert.equal(Buffer.from(line).toString(), line);
  return line;
}

test("a request in JSON has every documented member", () => {
  assert.deepEqual(JSON.parse(lineOf(jsonFormat, REQUEST)), {
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
    client: "192.0.2.1",
  });
});

test("a time has whole milliseconds, rounded down", () => {
  for (const [time, written] of TIMES) {
    assert.equal(JSON.parse(lineOf(jsonFormat, REQUEST, time)).time, written);
  }
});

test("a request id is written unchanged, with every character that it may have", () => {
  const requestId = "ABCXYZabcxyz0123456789._~+/=:@-";
  assert.equal(JSON.parse(lineOf(jsonFormat, { ...REQUEST, requestId })).requestId, requestId);
});

test("a request that was never parsed has nulls, and a success has no error", () => {
  const unknown = { method: undefined, path: undefined, durationMs: undefined };
  const nobody = { token: undefined, client: undefined };
  const success = { status: 200, error: undefined };
  const request = { ...REQUEST, ...unknown, ...nobody, ...success };
  const { method, path, durationMs, token, client, ...rest } = JSON.parse(
    lineOf(jsonFormat, request),
  );
  assert.deepEqual([method, path, durationMs, token, client], Array(5).fill(null));
  assert.equal("error" in rest, false);
});

const DURATIONS: readonly [ms: number, written: string][] = [
  [0, "0.000"],
  [0.0004, "0.000"],
  [0.005, "0.005"],
  [1.05, "1.050"],
  [0.9996, "1.000"],
  [9.9994, "9.999"],
  [9.9996, "10.000"],
  [999.9996, "1000.000"],
  [75_000.1, "75000.100"],
  [2 ** 32 + 0.125, "4294967296.125"],
  [1e12, "1000000000000.000"],
];

for (const [durationMs, written] of DURATIONS) {
  test(`a request of ${durationMs} ms is one of ${written} in JSON`, () => {
    const line = lineOf(jsonFormat, { ...REQUEST, durationMs });
    assert.equal(/"durationMs":([^,]+),/.exec(line)?.[1], written);
    JSON.parse(line);
  });
}

test("two requests that differ in one member have different lines", () => {
  const others: readonly Partial<RequestMessage>[] = [
    { method: "GET" },
    { path: "/plants/1" },
    { status: 200 },
    { error: 40006 },
    { error: undefined },
    { durationMs: 2.5 },
    { durationMs: undefined },
    { bodyBytes: 48 },
    { bodyBytes: 0 },
    { bodyBytes: 470 },
    { requestId: "abc-2" },
    { token: "visitor" },
    { token: undefined },
    { cut: true },
  ];
  const line = lineOf(jsonFormat, REQUEST);
  for (const other of others) {
    assert.notEqual(lineOf(jsonFormat, { ...REQUEST, ...other }), line);
    assert.equal(lineOf(jsonFormat, REQUEST), line);
  }
});

test("the line of a stream that broke off has the status 200 and a member cut", () => {
  const request = { ...REQUEST, status: 200, error: undefined };
  assert.equal(JSON.parse(lineOf(jsonFormat, { ...request, cut: true })).cut, true);
  assert.equal("cut" in JSON.parse(lineOf(jsonFormat, { ...request, cut: false })), false);
  assert.match(lineOf(textFormat, { ...request, cut: true }), / 200 cut 1\.2 ms /);
});

test("a notice in JSON has its message and its fields", () => {
  const fields = { url: "http://[::1]:8080", plants: 7, admin: undefined };
  const notice = { level: "info", event: "listening", message: "listening", fields } as const;
  assert.deepEqual(JSON.parse(lineOf(jsonFormat, notice)), {
    time: "2026-11-21T04:05:06.007Z",
    level: "info",
    event: "listening",
    message: "listening",
    url: "http://[::1]:8080",
    plants: 7,
    admin: null,
  });
});

test("the text format is short", (t) => {
  setColours(t, {});
  const line = lineOf(textFormat, REQUEST);
  assert.match(
    line,
    /^[0-9]{2}:[0-9]{2}:06 POST \/plants 400 40005 1\.2 ms 47 B gardener 192\.0\.2\.1 abc-1$/,
  );
});

/** Sets the variables that decide about colours, for one test. */
function setColours(t: TestContext, env: Readonly<Record<string, string>>): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  const { FORCE_COLOR: _, NO_COLOR: __, ...others } = before;
  process.env = { ...others, ...env };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
const SGR = /\u001b\[[0-9]+m/g;

/** Texts that have forged lines of logs or controlled terminals. */
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
  ["JSON", jsonFormat],
  ["text", textFormat],
];

const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be printed
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

for (const [name, format] of FORMATS) {
  for (const [what, text] of NAUGHTY) {
    test(`${what} cannot forge a line or move the cursor in ${name}`, () => {
      const request = { ...REQUEST, method: text, path: text, token: text };
      const notice = { level: "warn", event: "x", message: text, fields: { path: text } } as const;
      for (const line of [lineOf(format, request), lineOf(format, notice)]) {
        assert.doesNotMatch(line.replace(SGR, ""), UNSAFE);
        if (name === "JSON") assert.equal(JSON.parse(line).path, text);
      }
    });
  }
}

for (const [name, format] of FORMATS) {
  test(`a token in the wrong place of a request is masked in ${name}`, () => {
    const token = formatToken(randomBytes(32));
    const message = `not found: /plants/${token}?`;
    const request = { ...REQUEST, path: `/plants/${token}/${token}`, requestId: token };
    const notice = { level: "warn", event: "x", message, fields: { requestId: token } } as const;
    for (const line of [lineOf(format, request), lineOf(format, notice)]) {
      assert.ok(!line.includes(token), line);
      assert.ok(line.includes("/plants/pst_..."), line);
    }
  });
}

/** Where Docker cuts a line in two. */
const DOCKER_LINE_BYTES = 16 * 1024;

for (const [name, format] of FORMATS) {
  for (const character of ["x", "\u0085", "\u0001", "\ud83c", "\u202e", '"', "…"]) {
    test(`however often a text has the code unit 0x${character.charCodeAt(0).toString(16)}, its line in ${name} is shorter than Docker's`, () => {
      const text = character.repeat(DOCKER_LINE_BYTES);
      const request = { ...REQUEST, path: text, client: text };
      const notice = { level: "warn", event: "x", message: text } as const;
      for (const line of [lineOf(format, request), lineOf(format, notice)]) {
        assert.ok(Buffer.byteLength(line) < DOCKER_LINE_BYTES, `${Buffer.byteLength(line)}`);
      }
    });
  }
}

const PATH_LENGTHS: readonly [length: number, logged: string][] = [
  [1023, "x".repeat(1023)],
  [1024, "x".repeat(1024)],
  [1025, `${"x".repeat(1024)}…`],
  [16_384, `${"x".repeat(1024)}…`],
];

for (const [length, logged] of PATH_LENGTHS) {
  test(`a path of ${length} bytes is logged with its first ${Math.min(length, 1024)}`, () => {
    const request = { ...REQUEST, path: "x".repeat(length) };
    assert.equal(JSON.parse(lineOf(jsonFormat, request)).path, logged);
    assert.ok(lineOf(textFormat, request).includes(logged.slice("POST ".length)));
  });
}

const token = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((random) => {
  return formatToken(Buffer.from(random));
});

/** What stands beside a token: above all what could be taken for a part of one. */
const neighbours = fc
  .array(
    fc.oneof(
      fc.constantFrom("pst_", "/", "%", "_", "7"),
      fc.nat(42).map((length) => `pst_${"a".repeat(length)}`),
      anyString,
    ),
    { maxLength: 4 },
  )
  .map((parts) => parts.join(""));

for (const [name, format] of FORMATS) {
  test(`wherever a token is in a text, no line in ${name} holds its secret part`, () => {
    const tokens = fc.array(fc.tuple(neighbours, token), { minLength: 1, maxLength: 3 });
    const property = fc.property(tokens, neighbours, (parts, end) => {
      const text = parts.flat().join("") + end;
      // The characters that an id may have.
      const requestId = text.replace(/[^\w.~+/=:@-]/g, "");
      const request = { ...REQUEST, method: text, path: text, requestId, client: text };
      const notice = { level: "warn", event: "x", message: text, fields: { path: text } } as const;
      for (const line of [lineOf(format, request), lineOf(format, notice)]) {
        for (const [, each] of parts) assert.ok(!line.includes(each.slice("pst_".length)), line);
      }
    });
    fc.assert(property, { numRuns: 300 });
  });
}

test("no part of a token is logged, wherever a long path is cut", () => {
  const token = formatToken(randomBytes(32));
  const part = token.slice("pst_".length, 10);
  for (let left = 0; left < 64; left++) {
    const path = `/${"x".repeat(1023 - left)}${token}`;
    for (const format of [jsonFormat, textFormat]) {
      assert.ok(!lineOf(format, { ...REQUEST, path }).includes(part));
    }
  }
});

const COLOURS: readonly [env: Record<string, string>, wanted: boolean][] = [
  [{}, false],
  [{ FORCE_COLOR: "1" }, true],
  [{ FORCE_COLOR: "0" }, false],
  [{ NO_COLOR: "1" }, false],
];

for (const [env, wanted] of COLOURS) {
  test(`with ${JSON.stringify(env)} and no terminal the text format has ${wanted ? "" : "no "}colours`, (t) => {
    setColours(t, env);
    const line = lineOf(textFormat, REQUEST);
    assert.equal(line.replace(SGR, "") !== line, wanted);
  });
}
