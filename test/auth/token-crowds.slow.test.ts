/** Tokens that many processes create at once. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { listTokens, TokenRegistry } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { readModule } from "../support/run.ts";
import { judge, readTokenLog } from "../support/token-logs.ts";
import { collectWarnings, TIMEOUT, until } from "../support/watch.ts";

test("five processes that create twenty tokens at once lose none", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  const created = await Promise.all([1, 2, 3, 4, 5].map((n) => createAtOnce(folder, `p${n}`)));
  const tokens = new Map(created.flat());
  assert.equal(tokens.size, 20);
  const listed = await listTokens(folder);
  assert.deepEqual(listed.map(({ name }) => name).sort(), [...tokens.keys()].sort());
  for (const { name, hash } of listed) {
    const token = tokens.get(name) ?? "";
    assert.equal(hash, createHash("sha256").update(token).digest("hex"));
  }
});

/** Four tokens from a process of its own, all at once. */
function createAtOnce(folder: string, prefix: string): Promise<[name: string, token: string][]> {
  return readModule(`
    import { createInTurn } from ${JSON.stringify(import.meta.resolve("../support/token-logs.ts"))};
    const names = [0, 1, 2, 3].map((n) => ${JSON.stringify(prefix)} + "-" + n);
    const create = async (name) => [name, await createInTurn(${JSON.stringify(folder)}, { name })];
    process.stdout.write(JSON.stringify(await Promise.all(names.map(create))));`);
}

test("a registry knows every token that many processes create at once", async (t) => {
  const folder = makeFolder(t);
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  const warnings = collectWarnings(t);
  const created = await Promise.all([1, 2, 3, 4].map((n) => createInTurns(folder, `p${n}`)));
  const tokens = created.flat();
  assert.equal(tokens.length, 20);
  await until("the registry knows them all", () =>
    tokens.every(([name, token]) => judge(registry, token)?.name === name),
  );
  assert.equal(warnings.length, 0);
  assert.equal(readTokenLog(folder).split("\n").length, 21);
});

/** Five tokens from a process of its own, one after the other. */
function createInTurns(folder: string, prefix: string): Promise<[name: string, token: string][]> {
  return readModule(`
    import { createToken } from ${JSON.stringify(import.meta.resolve("../../src/index.ts"))};
    const made = [];
    for (let n = 0; n < 5; n++) {
      const name = ${JSON.stringify(prefix)} + "-" + n;
      made.push([name, await createToken(${JSON.stringify(folder)}, { name })]);
    }
    process.stdout.write(JSON.stringify(made));`);
}
