/** Runs the contract of tokens (test/cases/tokens) on a place where tokens are stored. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { TokenVerifier } from "../../src/core/services.ts";
import type { NewToken, TokenRecord } from "../../src/core/token.ts";
import { hashToken, isLive, makeRecord } from "../../src/core/token.ts";
import { CHANGES, IMPOSSIBLE, type TokenCase, VERDICTS } from "../cases/tokens.ts";

/** A place of tokens, and the functions that change it: in memory `createToken` alone. */
export interface Tokens<Place> {
  readonly place: Place;
  readonly functions: {
    createToken(place: Place, token: NewToken): Promise<string>;
    createFirstToken?(place: Place, token: NewToken): Promise<string | undefined>;
    revokeToken?(place: Place, name: string): Promise<void>;
    importTokens?(place: Place, records: Iterable<TokenRecord>): Promise<number>;
    listTokens?(place: Place): Promise<readonly TokenRecord[]>;
  };
  /** What a server checks tokens with, once it knows all of them. */
  verifier(): Promise<TokenVerifier>;
}

const HOUR_MS = 3_600_000;

export function runTokenContract<Place>(
  where: string,
  open: (t: TestContext) => Promise<Tokens<Place>>,
  rows: readonly TokenCase[] = [...VERDICTS, ...CHANGES],
  impossible: readonly object[] = IMPOSSIBLE,
): void {
  for (const row of rows) test(`${where}: ${row.says}`, async (t) => run(t, await open(t), row));
  for (const wrong of impossible) {
    test(`${where}: no token is made with ${JSON.stringify(wrong)}`, async (t) => {
      const { place, functions } = await open(t);
      const make = async () => functions.createToken(place, { name: "app", ...wrong } as NewToken);
      await assert.rejects(make(), RangeError);
      assert.deepEqual((await functions.listTokens?.(place)) ?? [], []);
    });
  }
}

/** A day passes by `Date` alone, so verdicts are as old then, and a server has to poll first. */
async function run<Place>(
  t: TestContext,
  { place, functions, verifier }: Tokens<Place>,
  { steps, lists }: TokenCase,
): Promise<void> {
  const { now } = Date;
  let lateMs = 0;
  t.mock.method(Date, "now", () => now() + lateMs);
  const made = new Map<string, string>();
  const keep = (token: string | undefined) => token && made.set(hashToken(token), token);
  let imported: TokenRecord[] = [];
  for (const [step = "", error] of steps.split("; ").map((text) => text.split(" !"))) {
    lateMs += 5; // so that the order of creation is known
    const [verb, name = "", third = ""] = step.split(" ");
    const scopes = /^(read|write)/.test(third) ? third.split(",") : undefined;
    const expiresAt = step.endsWith("for an hour") ? Date.now() + HOUR_MS : undefined;
    const work = async () => {
      const newToken = { name, scopes, expiresAt } as NewToken;
      if (verb === "create") keep(await functions.createToken(place, newToken));
      else if (verb === "first") keep(await functions.createFirstToken?.(place, newToken));
      else if (verb === "revoke") await functions.revokeToken?.(place, name);
      else if (verb === "a") lateMs += 24 * HOUR_MS;
      else if (name === "the") assert.equal(await functions.importTokens?.(place, imported), 0);
      else {
        const token = `pst_${third}`;
        keep(token);
        const record = makeRecord(token, { name: third }, Date.now());
        imported = [name === "live" ? record : { ...record, revokedAt: Date.now() }];
        assert.equal(await functions.importTokens?.(place, imported), 1);
      }
    };
    if (error === undefined) await work();
    else await assert.rejects(work(), { code: error });
  }
  const listed = (await functions.listTokens?.(place))?.map(describe).join(", ");
  assert.equal(listed ?? lists, lists);
  const live = await verifier();
  const accepted: string[] = [];
  for (const token of made.values()) {
    const verdict = await live.verify(token);
    if (verdict) accepted.push(`${verdict.name} ${verdict.scopes} live`);
    for (const other of [token.slice(0, -2), `${token}=`, token.toUpperCase(), hashToken(token)]) {
      assert.equal(await live.verify(other), undefined, "another text");
    }
  }
  assert.equal(
    accepted.join(),
    lists
      .split(", ")
      .filter((each) => each.endsWith("live"))
      .join(),
  );
}

function describe(token: TokenRecord): string {
  const dead = token.revokedAt === undefined ? "expired" : "revoked";
  return `${token.name} ${token.scopes} ${isLive(token, Date.now()) ? "live" : dead}`;
}
