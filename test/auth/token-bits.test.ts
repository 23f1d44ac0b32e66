/** A token file of which the disk has changed one bit, as the program wrote it: no dead token lives again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TokenSet } from "../../src/auth/token-log.ts";
import { createToken, listTokens, revokeToken } from "../../src/index.ts";
import { importTokens } from "../../src/tools.ts";
import { makeFolder } from "../support/folders.ts";
import { readTokenLog } from "../support/token-logs.ts";

const DAY_MS = 86_400_000;

/** Names of which none becomes another by one bit. */
async function makeTokens(folder: string, now: number): Promise<void> {
  const [other, expiresAt] = [`${folder}/other`, now + DAY_MS];
  await createToken(folder, { name: "app" });
  await createToken(folder, { name: "gone", expiresAt });
  await createToken(folder, { name: "old" });
  await revokeToken(folder, "old");
  await createToken(folder, { name: "old" }); // the name was free again
  for (const name of ["moved", "stopped"]) await createToken(other, { name });
  await createToken(other, { name: "lapsed", expiresAt });
  await revokeToken(other, "stopped");
  await importTokens(folder, await listTokens(other));
  await revokeToken(folder, "app");
}

async function liveAt(log: Buffer, now: number): Promise<string[]> {
  const tokens = new TokenSet();
  await tokens.parse("tokens.jsonl", log);
  return tokens.live(now).map(({ hash }) => hash);
}

/** Where the file has digits of an expiry: with another one it is another expiry. */
function expiryDigits(log: string): Set<number> {
  const digits = new Set<number>();
  for (const { index, 0: text } of log.matchAll(/"expiresAt":"[^"]*"/g)) {
    for (const { index: at } of text.matchAll(/\d/g)) digits.add(index + at);
  }
  return digits;
}

test("with any bit of the token file flipped no revoked and no expired token is live", async (t) => {
  const folder = makeFolder(t);
  const now = Date.now();
  await makeTokens(folder, now);
  const log = readTokenLog(folder);
  const later = now + 2 * DAY_MS;
  const dead = (await listTokens(folder)).filter(
    ({ expiresAt, revokedAt }) => revokedAt !== undefined || expiresAt !== undefined,
  );
  assert.equal(dead.length, 5);
  assert.equal((await liveAt(Buffer.from(log), later)).length, 2);
  const expiries = expiryDigits(log);
  const revived: string[] = [];
  for (let at = 0; at < log.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const flipped = Buffer.from(log);
      flipped[at] = (flipped[at] as number) ^ (1 << bit);
      const live = await liveAt(flipped, later).catch((error) => {
        assert.equal(error.code, "corruption");
        return [] as string[];
      });
      const alive = dead.find(({ hash }) => live.includes(hash));
      const mayLive = expiries.has(at) && alive?.revokedAt === undefined;
      if (alive !== undefined && !mayLive) revived.push(`${alive.name}: byte ${at}, bit ${bit}`);
    }
  }
  assert.deepEqual(revived, []);
});
