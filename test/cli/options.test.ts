import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Option } from "../../src/cli/command.ts";
import {
  EXPIRES,
  integer,
  switchOption,
  TRUSTED_PROXY,
  textOption,
} from "../../src/cli/options.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const DAY_MS = 86_400_000;

function stopClock(t: TestContext): void {
  t.mock.method(Date, "now", () => NOW);
}

const EXPIRIES: readonly [text: string, time: number][] = [
  ["1s", NOW + 1000],
  ["5m", NOW + 5 * 60_000],
  ["12h", NOW + 12 * 3_600_000],
  ["1d", NOW + DAY_MS],
  ["90d", NOW + 90 * DAY_MS],
  ["2w", NOW + 14 * DAY_MS],
  ["999999w", NOW + 999_999 * 7 * DAY_MS],
  ["2026-01-01", NOW + DAY_MS - 1],
  ["2028-02-29", Date.UTC(2028, 2, 1) - 1],
  ["2030-01-31", Date.UTC(2030, 1, 1) - 1],
  ["9999-12-31", Date.UTC(10_000, 0, 1) - 1],
  ["2026-01-01T00:01Z", NOW + 60_000],
  ["2030-01-31T12:00Z", Date.UTC(2030, 0, 31, 12)],
  ["2030-01-31T12:00:30.250Z", Date.UTC(2030, 0, 31, 12, 0, 30, 250)],
  ["2030-01-31T12:00+05:30", Date.UTC(2030, 0, 31, 6, 30)],
];

for (const [text, time] of EXPIRIES) {
  test(`an expiry of ${text} is ${new Date(time).toISOString()}`, (t) => {
    stopClock(t);
    assert.equal(EXPIRES.parse(text), time);
  });
}

const NO_EXPIRIES = [
  "",
  "d",
  "90",
  "0d",
  "-5d",
  "+5d",
  "1.5d",
  "090d",
  "1000000d",
  "1y",
  "1D",
  "1d ",
  " 1d",
  "1d\n",
  "1d12h",
  "٣d",
  "never",
  "tomorrow",
  "2026-01-01T00:00:00.000Z",
  "2025-12-31",
  "2030-1-1",
  "2030-13-01",
  "2030-01-00",
  "2030-02-31",
  "2030-01-32",
  "2027-02-29",
  "2030-01-31T12:00",
  "2030-01-31T12:00+5",
  "2030-01-31T12Z",
  "2030-01-31T25:00Z",
  "2030-02-31T12:00Z",
  "2030-01-31 12:00Z",
  "1893456000000",
];

/** A parser may throw, too. */
function tryParse<T>({ parse }: Option<T>, text: string): T | undefined {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

for (const text of NO_EXPIRIES) {
  test(`an expiry is never ${JSON.stringify(text)}`, (t) => {
    stopClock(t);
    assert.equal(tryParse(EXPIRES, text), undefined);
  });
}

for (const [min, max, text, value] of [
  [0, 65_535, "0", 0],
  [0, 65_535, "65535", 65_535],
  [1, 99, "1", 1],
  [1, 99, "007", 7],
  [0, 999_999_999_999_999, "999999999999999", 999_999_999_999_999],
] as const) {
  test(`an option from ${min} to ${max} takes ${text}`, () => {
    assert.equal(integer("N", "", { min, max }).parse(text), value);
  });
}

for (const [min, max, text] of [
  [0, 65_535, "65536"],
  [1, 99, "0"],
  [1, 99, "100"],
  [0, 99, "-1"],
  [0, 99, "-0"],
  [0, 99, "+1"],
  [0, 99, "1.0"],
  [0, 99, "1e1"],
  [0, 99, "0x10"],
  [0, 99, ""],
  [0, 99, " 1"],
  [0, 99, "1\n"],
  [0, 99, "1_0"],
  [0, 99, "٣"],
  [0, 99, "NaN"],
  [0, Number.POSITIVE_INFINITY, "9007199254740993"],
] as const) {
  test(`an option from ${min} to ${max} refuses ${JSON.stringify(text)}`, () => {
    assert.equal(integer("N", "", { min, max }).parse(text), undefined);
  });
}

for (const [text, value] of [
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
] as const) {
  test(`a switch is ${value} for ${text}`, () => {
    assert.equal(switchOption("").parse(text), value);
  });
}

for (const text of ["", "yes", "TRUE", "2", "on", " 1"]) {
  test(`a switch refuses ${JSON.stringify(text)}`, () => {
    assert.equal(switchOption("").parse(text), undefined);
  });
}

test("an option of text takes any text that is not empty", () => {
  assert.equal(textOption("T", "").parse(" a b "), " a b ");
  assert.equal(textOption("T", "").parse(""), undefined);
});

test("trusted proxies are addresses and blocks, of both families", () => {
  const proxies = TRUSTED_PROXY.parse("192.0.2.7,10.0.0.0/8,fd00::/8");
  for (const [address, family, isTrusted] of [
    ["192.0.2.7", "ipv4", true],
    ["192.0.2.8", "ipv4", false],
    ["10.255.0.1", "ipv4", true],
    ["fdff::1", "ipv6", true],
    ["fe80::1", "ipv6", false],
  ] as const) {
    assert.equal(proxies?.check(address, family), isTrusted, address);
  }
});

for (const text of [
  "",
  "proxy",
  "10.0.0.0/33",
  "10.0.0.0/",
  "10.0.0/8",
  "10.0.0.0/8/8",
  "::/129",
]) {
  test(`no trusted proxy is "${text}", alone or beside a good one`, () => {
    assert.equal(tryParse(TRUSTED_PROXY, text), undefined);
    assert.equal(tryParse(TRUSTED_PROXY, `10.0.0.7,${text}`), undefined);
  });
}
