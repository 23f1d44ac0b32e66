import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createToken, listTokens, revokeToken } from "../../src/index.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { readTokens, tokenPath } from "../support/token-files.ts";

test("token import takes the tokens of another directory, once, and a running server accepts them", async (t) => {
  const [source, target] = [makeFolder(t), makeFolder(t)];
  const token = await createToken(source, { name: "app" });
  await createToken(source, { name: "late", expiresAt: Date.UTC(2999, 0, 1), scopes: ["read"] });
  await createToken(source, { name: "old" });
  await revokeToken(source, "old");
  const server = await startServer(t, ["--data", target]);
  const post = async () => (await postPlant(server.url, token, '{"id":1,"name":"Fern"}')).status;
  assert.equal(await post(), 401);
  for (const added of [3, 0]) {
    const end = await runCli(["token", "import", tokenPath(source), "--data", target]);
    const said = `imported ${added}, already there ${3 - added}\n`;
    assert.deepEqual([end.status, end.stdout, end.stderr], [0, said, ""]);
    assert.equal(await post(), 200);
  }
  assert.deepEqual(await listTokens(target), await listTokens(source));
});

test("a live token of the same name is a refusal that names it, and nothing is imported", async (t) => {
  const [source, target] = [makeFolder(t), makeFolder(t)];
  for (const name of ["first", "app"]) await createToken(source, { name });
  await createToken(target, { name: "app" });
  const log = readTokens(target);
  const end = await runCli(["token", "import", tokenPath(source), "--data", target]);
  assert.deepEqual([end.status, end.stdout], [1, ""]);
  assert.match(end.stderr, /"app"/);
  assert.equal(readTokens(target), log);
});

test("a file that is damaged or cannot be read is named, and no folder is made", async (t) => {
  const folder = makeFolder(t);
  const plants = join(folder, "plants.jsonl");
  writeFileSync(plants, '{"id":7,"name":"Fern"}\n');
  for (const [file, status] of [
    [join(folder, "missing"), 1],
    [folder, 1],
    [plants, 3],
  ] as const) {
    const end = await runCli(["token", "import", file, "--data", join(folder, "data")]);
    assert.deepEqual([end.status, end.stdout], [status, ""], end.stderr);
    assert.ok(end.stderr.includes(`"${file}"`), end.stderr);
  }
  assert.equal(existsSync(join(folder, "data")), false);
});
