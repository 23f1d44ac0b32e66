/**
 * Who may create plants: the bearer token, every way to send it wrongly, and
 * the challenge. No answer and no message repeats a token.
 */
import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { generateToken } from "../../src/auth/token-file.ts";
import { hashToken } from "../../src/core/token.ts";
import { createToken, revokeToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import {
  assertError,
  assertPlant,
  encodeRequest,
  exchange,
  ownLines,
} from "../support/contract.ts";
import type { RawAnswer } from "../support/raw.ts";
import { type Service, startService } from "../support/service.ts";

const BODY = '{"id":1,"name":"x"}';
const MISSING = 'Bearer realm="plant-store"';
const INVALID = 'Bearer realm="plant-store", error="invalid_token"';

/** A create with this Authorization header, with several, or with none. */
async function tryWith(
  service: Service,
  authorization: string | readonly string[] | undefined,
): Promise<RawAnswer> {
  const answer = await exchange(service, { headers: { Authorization: authorization }, body: BODY });
  assert.ok(!answer.text.includes(service.token), "the answer repeats the token");
  return answer;
}

function assertMissing(answer: RawAnswer): void {
  assertError(answer, 40101);
  assert.equal(answer.headers.get("www-authenticate"), MISSING);
}

function assertInvalid(answer: RawAnswer): void {
  assertError(answer, 40102);
  assert.equal(answer.headers.get("www-authenticate"), INVALID);
}

for (const scheme of ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer   "]) {
  test(`the scheme may be written "${scheme}"`, async (t) => {
    const service = await startService(t);
    assertPlant(await tryWith(service, `${scheme} ${service.token}`), { name: "x" });
  });
}

test("the header's name may be in any case, with white space around its value", async (t) => {
  const service = await startService(t);
  const headers = { Authorization: undefined, aUTHORIZATION: ` \t Bearer ${service.token} \t ` };
  assertPlant(await exchange(service, { headers, body: BODY }), { name: "x" });
});

const WITHOUT_TOKEN: readonly (string | undefined)[] = [
  undefined,
  "",
  "Bearer",
  "Bearer ",
  "Basic dXNlcjpwYXNz",
  "Digest username=x",
  "Bearertoken",
  "Token TOKEN",
  "TOKEN",
  "Basic TOKEN",
  "Bearer\tTOKEN",
];

test("a request without a bearer token is answered 40101 and a bare challenge", async (t) => {
  const service = await startService(t);
  for (const value of WITHOUT_TOKEN) {
    await t.test(`Authorization: ${JSON.stringify(value)}`, async () => {
      assertMissing(await tryWith(service, value?.replace("TOKEN", service.token)));
    });
  }
  assert.deepEqual(ownLines(service), []);
});

test("a token is taken from its header only", async (t) => {
  const service = await startService(t);
  const { token } = service;
  for (const [what, parts] of [
    ["the query", { target: `/plants?access_token=${token}`, body: BODY }],
    ["the body", { body: `{"id":1,"name":"x","access_token":"${token}"}` }],
    ["a cookie", { headers: { Cookie: `access_token=${token}` }, body: BODY }],
    ["another header", { headers: { "Proxy-Authorization": `Bearer ${token}` }, body: BODY }],
    ["the target", { target: `http://bearer:${token}@localhost/plants`, body: BODY }],
  ] as const) {
    await t.test(`not from ${what}`, async () => {
      const headers = { ...("headers" in parts ? parts.headers : {}), Authorization: undefined };
      assertMissing(await exchange(service, { ...parts, headers }));
    });
  }
  assert.deepEqual(ownLines(service), []);
});

const BAD_TOKENS: readonly string[] = [
  "Bearer x",
  "Bearer pst_",
  `Bearer pst_${"A".repeat(43)}`,
  "Bearer TOKENx",
  "Bearer xTOKEN",
  "Bearer TOKEN=",
  "Bearer TOKEN TOKEN",
  "Bearer TOKEN, Bearer TOKEN",
  "Bearer TOKEN,",
  "Bearer TOKEN;",
  'Bearer "TOKEN"',
  "Bearer TOKEN\xe9",
  "Bearer __proto__",
  "Bearer ../tokens.jsonl",
  `Bearer ${"x".repeat(10_000)}`,
];

test("a bad token is answered 40102 with the challenge invalid_token", async (t) => {
  const service = await startService(t);
  for (const value of BAD_TOKENS) {
    await t.test(`Authorization: ${value.slice(0, 40)}`, async () => {
      assertInvalid(await tryWith(service, value.replaceAll("TOKEN", service.token)));
    });
  }
  assertInvalid(await tryWith(service, `Bearer ${service.token.slice(0, -1)}`));
  assertInvalid(await tryWith(service, `Bearer ${service.token.toUpperCase()}`));
  assertInvalid(await tryWith(service, `Bearer ${hashToken(service.token)}`));
  assert.deepEqual(ownLines(service), []);
});

test("two Authorization headers are answered 40102, no matter what they contain", async (t) => {
  const service = await startService(t);
  const good = `Bearer ${service.token}`;
  for (const values of [
    [good, good],
    [good, "Bearer x"],
    ["Bearer x", good],
    [good, ""],
    ["Basic dXNlcjpwYXNz", good],
  ]) {
    assertInvalid(await tryWith(service, values));
  }
  const headers = { Authorization: good, AUTHORIZATION: good };
  assertInvalid(await exchange(service, { headers, body: BODY }));
  assert.deepEqual(ownLines(service), []);
});

test("a token with any byte changed gets the same answer as every other invalid token", async (t) => {
  const service = await startService(t);
  const { token } = service;
  const expected = await tryWith(service, `Bearer pst_${"a".repeat(43)}`);
  const answers = [...token].map((character, at) => {
    const other = character === "A" ? "B" : "A";
    return tryWith(service, `Bearer ${token.slice(0, at)}${other}${token.slice(at + 1)}`);
  });
  for (const answer of await Promise.all(answers)) {
    assertInvalid(answer);
    if (!/of another form/.test(answer.text)) assert.equal(answer.text, expected.text);
  }
  const client = await Client.connect(service.port);
  await client.send(encodeRequest(service, { body: BODY }));
  assertPlant(await client.next(), { name: "x" });
  client.destroy();
});

/** A service with one token of each kind besides the valid one. */
async function startWithTokens(t: TestContext) {
  const expired = generateToken();
  const tokens = { expired, revoked: "", readOnly: "", both: "", expiring: "", unknown: "" };
  const service = await startService(t, {
    prepare: async (folder) => {
      tokens.revoked = await createToken(folder, { name: "revoked" });
      await revokeToken(folder, "revoked");
      tokens.readOnly = await createToken(folder, { name: "read-only", scopes: ["read"] });
      tokens.both = await createToken(folder, { name: "both", scopes: ["read", "write"] });
      tokens.expiring = await createToken(folder, { name: "expiring", expiresAt: 2 ** 42 });
      tokens.unknown = generateToken();
      // No function creates a token that has already expired.
      const event = {
        event: "created",
        name: "expired",
        hash: hashToken(expired),
        scopes: ["write"],
        createdAt: "2020-01-01T00:00:00.000Z",
        expiresAt: "2020-01-02T00:00:00.000Z",
      };
      appendFileSync(join(folder, "tokens.jsonl"), `${JSON.stringify(event)}\n`);
    },
  });
  return { service, tokens };
}

test("unknown, expired and revoked tokens get the same answer to the byte", async (t) => {
  const { service, tokens } = await startWithTokens(t);
  const { unknown, expired, revoked } = tokens;
  const answers: RawAnswer[] = [];
  for (const token of [unknown, expired, revoked]) {
    const answer = await tryWith(service, `Bearer ${token}`);
    assertInvalid(answer);
    answer.headers.delete("date");
    answer.headers.delete("x-request-id");
    answers.push(answer);
  }
  assert.deepEqual(answers[1], answers[0]);
  assert.deepEqual(answers[2], answers[0]);
  assert.deepEqual(ownLines(service), []);
});

test("each of several live tokens is accepted", async (t) => {
  const { service, tokens } = await startWithTokens(t);
  for (const token of [service.token, tokens.both, tokens.expiring]) {
    assertPlant(await tryWith(service, `Bearer ${token}`), { name: "x" });
  }
});

test("a token without the scope write is answered 40301 with the scope it needs", async (t) => {
  const { service, tokens } = await startWithTokens(t);
  const answer = await tryWith(service, `Bearer ${tokens.readOnly}`);
  assertError(answer, 40301);
  assert.equal(
    answer.headers.get("www-authenticate"),
    'Bearer realm="plant-store", error="insufficient_scope", scope="write"',
  );
  assert.deepEqual(ownLines(service), []);
});

test("no message of any refusal repeats the token", async (t) => {
  const service = await startService(t);
  const { token } = service;
  for (const parts of [
    { target: `/${token}` },
    { target: `/plants?${token}`, method: "GET" },
    { headers: { Expect: token } },
    { headers: { "Content-Type": token } },
    { headers: { "Content-Encoding": token } },
    { headers: { Host: `${token}/` } },
    { headers: { [`${token} `]: "x" } },
    { headers: { "Content-Length": token } },
    { headers: { Authorization: `Bearer ${token} ${token}` } },
    { headers: { Authorization: token } },
    { version: token },
    { method: token },
  ]) {
    const answer = await exchange(service, { body: BODY, ...parts });
    assert.ok(answer.status >= 400);
    assert.ok(!answer.text.includes(token), answer.text);
  }
});
