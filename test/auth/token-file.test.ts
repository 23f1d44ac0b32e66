import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { generateToken } from "../../src/auth/token-file.ts";
import {
  createFirstToken,
  createToken,
  listTokens,
  type NewToken,
  PlantStore,
  revokeToken,
} from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { createInTurn, readTokenLog, tokenLogPath } from "../support/token-logs.ts";
import { TIMEOUT } from "../support/watch.ts";

const FAR = Date.UTC(2100, 0, 1);

test("a created token is one line with its hash, and is listed", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, {
    name: "ci",
    scopes: ["read", "write"],
    expiresAt: FAR,
  });
  const hash = createHash("sha256").update(token).digest("hex");

  const [line = "", ...others] = readTokenLog(folder).split("\n");
  const { createdAt, ...event } = JSON.parse(line);
  assert.deepEqual(event, {
    event: "created",
    name: "ci",
    hash,
    scopes: ["read", "write"],
    expiresAt: "2100-01-01T00:00:00.000Z",
  });
  assert.deepEqual(others, [""]);
  assert.deepEqual(await listTokens(folder), [
    {
      name: "ci",
      hash,
      scopes: ["read", "write"],
      createdAt: Date.parse(createdAt),
      expiresAt: FAR,
    },
  ]);
});

test("a token has the scope write and no expiry by default", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "ci" });
  const [token] = await listTokens(folder);
  assert.deepEqual(token?.scopes, ["write"]);
  assert.equal(token !== undefined && "expiresAt" in token, false);
});

test("a token itself is never on disk", async (t) => {
  const folder = makeFolder(t);
  const tokens = [
    await createToken(folder, { name: "a" }),
    await createToken(folder, { name: "b" }),
    await createFirstToken(makeFolder(t), { name: "c" }),
  ];
  await revokeToken(folder, "a");
  for (const name of readdirSync(folder)) {
    if (!statSync(join(folder, name)).isFile()) continue; // the sockets of the lock
    const content = readFileSync(join(folder, name), "utf8");
    assert.ok(content.includes("created"));
    for (const token of tokens) {
      assert.ok(token !== undefined);
      assert.equal(content.includes(token.slice(4)), false);
      assert.equal(content.includes(Buffer.from(token).toString("base64")), false);
      assert.equal(content.includes(Buffer.from(token).toString("hex")), false);
    }
  }
});

test("the name of a live token is refused; that of a revoked one can be used again", async (t) => {
  const folder = makeFolder(t);
  const first = await createToken(folder, { name: "a" });
  const before = readTokenLog(folder);
  await assert.rejects(createToken(folder, { name: "a" }), { code: "token_exists" });
  assert.equal(readTokenLog(folder), before);

  await revokeToken(folder, "a");
  const second = await createToken(folder, { name: "a" });
  assert.notEqual(first, second);
  const tokens = await listTokens(folder);
  assert.deepEqual(
    tokens.map(({ name, revokedAt }) => [name, revokedAt !== undefined]),
    [
      ["a", true],
      ["a", false],
    ],
  );
});

test("names that differ in case are different names", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "a" });
  await createToken(folder, { name: "A" });
  await revokeToken(folder, "a");
  const live = (await listTokens(folder)).filter(({ revokedAt }) => revokedAt === undefined);
  assert.deepEqual(
    live.map(({ name }) => name),
    ["A"],
  );
});

test("a revocation of a name that has no live token is refused and writes nothing", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "a" });
  await assert.rejects(revokeToken(folder, "b"), { code: "token_unknown" });
  await revokeToken(folder, "a");
  const before = readTokenLog(folder);
  await assert.rejects(revokeToken(folder, "a"), { code: "token_unknown" });
  assert.equal(readTokenLog(folder), before);
});

test("createFirstToken() creates a token only if there is no live one", async (t) => {
  const folder = makeFolder(t);
  assert.match((await createFirstToken(folder, { name: "first" })) ?? "", /^pst_/);
  assert.equal(await createFirstToken(folder, { name: "second" }), undefined);
  await revokeToken(folder, "first");
  assert.match((await createFirstToken(folder, { name: "first" })) ?? "", /^pst_/);
});

test("without a folder or a file there are no tokens, and listing creates neither", async (t) => {
  const folder = makeFolder(t);
  assert.deepEqual(await listTokens(folder), []);
  assert.deepEqual(await listTokens(join(folder, "none")), []);
  assert.deepEqual(readdirSync(folder), []);
});

/** Values that a program in JavaScript may pass, and that must never reach the log. */
const IMPOSSIBLE: readonly [says: string, token: unknown][] = [
  ["an empty name", { name: "" }],
  ["a name of two words", { name: "a b" }],
  ["a name of 65 characters", { name: "a".repeat(65) }],
  ["no name", {}],
  ["a number as name", { name: 7 }],
  ["an expiry in the past", { name: "a", expiresAt: 1 }],
  ["an expiry that is no number", { name: "a", expiresAt: Number.NaN }],
  ["an endless expiry", { name: "a", expiresAt: Number.POSITIVE_INFINITY }],
  ["an expiry beyond the last date", { name: "a", expiresAt: 8.64e15 + 1 }],
  ["an unknown scope", { name: "a", scopes: ["admin"] }],
  ["a word as scopes", { name: "a", scopes: "write" }],
];

for (const [says, newToken] of IMPOSSIBLE) {
  test(`a token with ${says} is refused, and the log stays readable`, async (t) => {
    const folder = makeFolder(t);
    for (const create of [createToken, createFirstToken]) {
      await assert.rejects(
        create(folder, newToken as NewToken),
        (error) => error instanceof RangeError || error instanceof TypeError,
      );
    }
    assert.deepEqual(await listTokens(folder), []);
  });
}

test("one process that creates twenty tokens at once loses none", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  const names = Array.from({ length: 20 }, (_, n) => `token-${n}`);
  const tokens = await Promise.all(names.map((name) => createInTurn(folder, { name })));
  await assertAllThere(folder, new Map(names.map((name, n) => [name, tokens[n] ?? ""])));
});

async function assertAllThere(folder: string, tokens: ReadonlyMap<string, string>): Promise<void> {
  const listed = await listTokens(folder);
  assert.deepEqual(listed.map(({ name }) => name).sort(), [...tokens.keys()].sort());
  for (const { name, hash } of listed) {
    const token = tokens.get(name) ?? "";
    assert.equal(hash, createHash("sha256").update(token).digest("hex"));
  }
}

for (const [says, count, create] of [
  ["a few tokens of one name at once, which wait for one another", 3, createToken],
  ["many tokens of one name at once", 10, createInTurn],
] as const) {
  test(`of ${says}, one is created`, TIMEOUT, async (t) => {
    const folder = makeFolder(t);
    const settled = await Promise.allSettled(
      Array.from({ length: count }, () => create(folder, { name: "a" })),
    );
    assert.equal(settled.filter(({ status }) => status === "fulfilled").length, 1);
    for (const result of settled) {
      if (result.status === "rejected") assert.equal(result.reason.code, "token_exists");
    }
    assert.equal((await listTokens(folder)).length, 1);
  });
}

test("tokens can be created and revoked while a store is open", async (t) => {
  const folder = makeFolder(t);
  const store = await PlantStore.open(folder);
  t.after(() => store.close());
  await createToken(folder, { name: "a" });
  await revokeToken(folder, "a");
  assert.equal((await listTokens(folder))[0]?.revokedAt !== undefined, true);
});

test("a new folder and the token log can be read by their owner only", async (t) => {
  const folder = join(makeFolder(t), "new");
  await createToken(folder, { name: "a" });
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(tokenLogPath(folder)).mode & 0o777, 0o600);
});

test("no two tokens are the same", () => {
  const tokens = Array.from({ length: 10_000 }, generateToken);
  assert.equal(new Set(tokens).size, tokens.length);
});

test("every bit of a token is random: each is set in about half of them", () => {
  const counts = new Array<number>(256).fill(0);
  for (let n = 0; n < 1000; n++) {
    const bytes = Buffer.from(generateToken().slice(4), "base64url");
    for (let bit = 0; bit < 256; bit++) {
      counts[bit] = (counts[bit] ?? 0) + (((bytes[bit >> 3] ?? 0) >> (bit & 7)) & 1);
    }
  }
  // 10 standard deviations: a fair bit leaves this range once in 10^22 runs.
  for (const count of counts) assert.ok(count > 340 && count < 660);
});
