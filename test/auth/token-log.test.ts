import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decodeTokenEvent, type TokenEvent, TokenSet } from "../../src/auth/token-log.ts";
import { isTokenName } from "../../src/core/services.ts";
import { encodeTokens } from "../../src/core/token.ts";

const HASH = "0123456789abcdef".repeat(4);
const CREATED = {
  event: "created",
  name: "a",
  hash: HASH,
  scopes: ["write"],
  createdAt: "2026-01-02T03:04:05.678Z",
};
const REVOKED = { event: "revoked", name: "a", revokedAt: "2026-01-02T03:04:05.678Z" };
const TIME = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

function decode(event: unknown): TokenEvent {
  return decodeTokenEvent(Buffer.from(typeof event === "string" ? event : JSON.stringify(event)));
}

test("a name is letters, digits and a few signs, the first a letter or digit, at most 64 of them", () => {
  const names = ["a", "A", "0", "a.b_c@d-e", "constructor", `x${"-".repeat(63)}`];
  for (const name of names) {
    assert.equal(isTokenName(name), true);
    assert.deepEqual(decode({ ...CREATED, name }), { ...CREATED, name, createdAt: TIME });
  }
  const others = [
    "",
    " ",
    "-a",
    ".a",
    "_a",
    "@a",
    "a b",
    "a\n",
    "\na",
    "a/b",
    'a"b',
    "a\u001b[31m",
  ];
  for (const name of [...others, "\u00e9", "a\u0301", "\uff21", `x${"-".repeat(64)}`]) {
    assert.equal(isTokenName(name), false);
    assert.throws(() => decode({ ...CREATED, name }), { code: "corruption" }, name);
  }
});

test("a created event is read with its times as milliseconds", () => {
  assert.deepEqual(decode(CREATED), { ...CREATED, createdAt: TIME });
  assert.deepEqual(decode({ ...CREATED, expiresAt: "2026-01-02T03:04:05.679Z" }), {
    ...CREATED,
    createdAt: TIME,
    expiresAt: TIME + 1,
  });
  assert.deepEqual(decode({ ...CREATED, scopes: [] }), { ...CREATED, scopes: [], createdAt: TIME });
});

test("a revoked event is read with its time as milliseconds", () => {
  assert.deepEqual(decode(REVOKED), { ...REVOKED, revokedAt: TIME });
});

/** Each differs from a valid event in one member. */
const DAMAGED: readonly [says: string, event: unknown][] = [
  ["no JSON", "created a"],
  ["nothing", ""],
  ["half a record", JSON.stringify(CREATED).slice(0, -1)],
  ["two records", JSON.stringify(REVOKED).repeat(2)],
  ["an array", [CREATED]],
  ["null", null],
  ["a string", '"created"'],
  ["no event", { ...CREATED, event: undefined }],
  ["an unknown event", { ...CREATED, event: "renamed" }],
  ["an event in capitals", { ...CREATED, event: "Created" }],
  ["no name", { ...CREATED, name: undefined }],
  ["a number as name", { ...CREATED, name: 7 }],
  ["no hash", { ...CREATED, hash: undefined }],
  ["a short hash", { ...CREATED, hash: HASH.slice(1) }],
  ["a long hash", { ...CREATED, hash: `${HASH}0` }],
  ["a hash in capitals", { ...CREATED, hash: HASH.toUpperCase() }],
  ["a token in place of its hash", { ...CREATED, hash: `pst_${"A".repeat(43)}` }],
  ["no scopes", { ...CREATED, scopes: undefined }],
  ["a string as scopes", { ...CREATED, scopes: "write" }],
  ["an unknown scope", { ...CREATED, scopes: ["write", "admin"] }],
  ["no time of creation", { ...CREATED, createdAt: undefined }],
  ["a number as time", { ...CREATED, createdAt: TIME }],
  ["a word as time", { ...CREATED, createdAt: "yesterday" }],
  ["null as expiry", { ...CREATED, expiresAt: null }],
  ["an empty expiry", { ...CREATED, expiresAt: "" }],
  ["no time of revocation", { ...REVOKED, revokedAt: undefined }],
  ["a revocation without a name", { ...REVOKED, name: undefined }],
  ["a time that only JavaScript reads", { ...CREATED, createdAt: "Jan 2 2026" }],
  ["a time of another zone", { ...CREATED, createdAt: "2026-01-02T03:04:05.678+01:00" }],
  ["an unknown member", { ...CREATED, expiresAs: "2026-01-02T03:04:05.678Z" }],
  ["an unknown member in a revocation", { ...REVOKED, why: "lost" }],
  ["a prototype", JSON.stringify(CREATED).replace("{", '{"__proto__":{},')],
  ["no tokens to import", { event: "imported" }],
  ["a token without a hash", { event: "imported", tokens: [{ name: "a" }] }],
  ["null as a token", { event: "imported", tokens: [null] }],
];

for (const [says, event] of DAMAGED) {
  test(`an event with ${says} is corruption`, () => {
    assert.throws(() => decode(event), { code: "corruption" });
  });
}

test("encode and decode are inverses, and an event is one line", () => {
  const name = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/);
  const hash = fc.stringMatching(/^[0-9a-f]{64}$/);
  const scopes = fc.subarray<"write" | "read">(["write", "read"]);
  const time = fc.integer({ min: -8.64e15, max: 8.64e15 }); // what a Date can hold
  const created = fc.tuple(name, hash, scopes, time).map(([name, hash, scopes, createdAt]) => ({
    event: "created" as const,
    name,
    hash,
    scopes,
    createdAt,
  }));
  const expiring = fc.tuple(created, time).map(([event, expiresAt]) => ({ ...event, expiresAt }));
  const revoked = fc
    .tuple(name, time)
    .map(([name, revokedAt]) => ({ event: "revoked" as const, name, revokedAt }));
  const anyEvent = fc.oneof<fc.Arbitrary<TokenEvent>[]>(created, expiring, revoked);
  fc.assert(
    fc.property(anyEvent, (event) => {
      const line = encodeTokens(event);
      assert.equal(line.includes("\n"), false);
      assert.deepEqual(decode(line), event);
    }),
  );
});

test("times are written in ISO 8601", () => {
  const line = encodeTokens({ event: "revoked", name: "a", revokedAt: TIME });
  assert.equal(line, JSON.stringify(REVOKED));
});

function created(name: string, createdAt: number, expiresAt?: number): TokenEvent {
  const expiry = expiresAt === undefined ? {} : { expiresAt };
  return {
    event: "created",
    name,
    hash: hashOf(name, createdAt),
    scopes: ["write"],
    createdAt,
    ...expiry,
  };
}

function hashOf(name: string, createdAt: number): string {
  return `${Buffer.from(name).toString("hex")}${createdAt.toString(16)}`.padStart(64, "0");
}

test("a token that was revoked stays revoked if a line creates it once more", () => {
  const set = new TokenSet();
  for (const event of [
    created("a", 1),
    { event: "revoked" as const, name: "a", revokedAt: 2 },
    created("a", 1),
    {
      event: "imported" as const,
      tokens: [{ name: "b", hash: hashOf("a", 1), scopes: [], createdAt: 0 }],
    },
  ]) {
    set.apply(event);
  }
  assert.deepEqual(set.live(3), []);
  assert.equal(set.tokens.length, 1);
});

test("a revocation that ends no token is damage, also as a last line without its line feed", async () => {
  const lines = [created("a", 1), { event: "revoked" as const, name: "a", revokedAt: 2 }];
  for (const name of ["a", "b"]) {
    const set = new TokenSet();
    for (const event of lines) set.apply(event);
    const more = { event: "revoked" as const, name, revokedAt: 3 };
    assert.throws(() => set.apply(more), { code: "corruption" });
    const log = [...lines, more].map(encodeTokens).join("\n");
    for (const end of ["", "\n", "\0", "*"]) {
      const parsing = new TokenSet().parse("tokens.jsonl", Buffer.from(log + end));
      await assert.rejects(parsing, { code: "corruption", message: /\bline 3\b/ });
    }
  }
});

test("the live tokens can be listed without the others", () => {
  const set = new TokenSet();
  for (let dead = 0; dead < 100_000; dead++) {
    set.apply(created("dead", dead));
    set.apply({ event: "revoked", name: "dead", revokedAt: dead });
  }
  set.apply(created("a", 1, 2));
  set.apply(created("a", 3));
  assert.deepEqual(
    set.live(1).map(({ name, createdAt }) => [name, createdAt]),
    [
      ["a", 1],
      ["a", 3],
    ],
  );
  assert.equal(set.tokens.length, 100_002);
});
