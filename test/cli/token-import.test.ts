/** `token export` and `token import` between data directories. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createToken, listTokens, revokeToken } from "../../src/index.ts";
import { importTokens } from "../../src/tools.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { readTokenLog } from "../support/token-logs.ts";

const LINE = {
  name: "app",
  hash: "0a".repeat(32),
  scopes: ["write"],
  createdAt: "2026-01-01T00:00:00.000Z",
};

test("token export prints a line for each token, which token import takes", async (t) => {
  const [source, target] = [makeFolder(t), makeFolder(t)];
  for (const name of ["old", "app"]) await createToken(source, { name, scopes: ["read", "write"] });
  await createToken(source, { name: "late", expiresAt: Date.UTC(2999, 0, 1) });
  await revokeToken(source, "old");
  const { stdout, status } = await runCli(["token", "export", "--data", source]);
  assert.equal(status, 0);
  const records = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    records.map((record) => Object.keys(record).slice(3)),
    [["createdAt", "revokedAt"], ["createdAt"], ["createdAt", "expiresAt"]],
  );
  for (const changed of [3, 0]) {
    const end = await runCli(["token", "import", "-", "--data", target], { stdin: stdout });
    const said = `imported ${changed}, already there ${3 - changed}\n`;
    assert.deepEqual([end.status, end.stdout, end.stderr], [0, said, ""]);
  }
  const list = (folder: string) => runCli(["token", "list", "--json", "--data", folder]);
  assert.deepEqual(await list(target), await list(source));
  assert.equal((await runCli(["token", "export", "--data", target])).stdout, stdout);
});

test("the order of the members, and spaces between them, do not matter", async (t) => {
  const folder = makeFolder(t);
  const { name, ...others } = LINE;
  const times = { expiresAt: "2999-01-01T00:00:00.000Z" };
  const stdin = JSON.stringify({ ...times, ...others, name }).replaceAll(",", ", ");
  const end = await runCli(["token", "import", "-", "--data", folder], { stdin });
  assert.deepEqual([end.status, end.stdout], [0, "imported 1, already there 0\n"]);
  assert.equal((await listTokens(folder))[0]?.name, name);
});

test("a running server accepts and refuses the tokens when token import has ended", async (t) => {
  const [source, target] = [makeFolder(t), makeFolder(t)];
  const token = await createToken(source, { name: "app" });
  const server = await startServer(t, ["--data", target]);
  const importAll = async () => {
    const { stdout } = await runCli(["token", "export", "--data", source]);
    return runCli(["token", "import", "-", "--data", target], { stdin: stdout });
  };
  const post = async () => (await postPlant(server.url, token, '{"id":1,"name":"Fern"}')).status;
  assert.equal(await post(), 401);
  assert.equal((await importAll()).status, 0);
  assert.equal(await post(), 200);
  await revokeToken(source, "app");
  assert.equal((await importAll()).status, 0);
  assert.equal(await post(), 401);
});

/** Files that are damaged, and the lines that are named. */
const DAMAGED: readonly [says: string, file: string, lines: readonly number[]][] = [
  ["no JSON", "garden", [1]],
  ["a line that was cut", `${JSON.stringify(LINE)}\n\n${JSON.stringify(LINE).slice(0, -9)}`, [3]],
  ["a plant", '{"id":7,"name":"Fern"}', [1]],
  ["events of a token log", JSON.stringify({ event: "created", ...LINE }), [1]],
  ["a line of token list --json", '{"name":"app","scopes":["write"],"state":"live"}', [1]],
  ["an array", JSON.stringify([LINE]), [1]],
  ["null", "null", [1]],
  [
    "times that no export has",
    [
      { createdAt: "1" },
      { expiresAt: "2099-01-01T00:00" },
      { expiresAt: "2099-01-01" },
      { revokedAt: "2026-01-01T00:00:00Z" },
      { revokedAt: "2026-01-01T01:00:00.000+01:00" },
      { expiresAt: "never" },
    ]
      .map((members) => JSON.stringify({ ...LINE, ...members }))
      .join("\n"),
    [1, 2, 3, 4, 5, 6],
  ],
  ["a member given twice", JSON.stringify(LINE).replace("{", '{"n\\u0061me":"other",'), [1]],
  [
    "wrong members",
    [{ name: "a b" }, {}, { hash: "0" }, { scopes: "write" }, { expiresAt: null }, { expires: "" }]
      .map((members) => JSON.stringify({ ...LINE, ...members }))
      .join("\r\n"),
    [1, 3, 4, 5, 6],
  ],
];

for (const [says, file, lines] of DAMAGED) {
  test(`a file with ${says} is refused with its lines and status 3, and changes nothing`, async (t) => {
    const folder = makeFolder(t);
    await createToken(folder, { name: "first" });
    const log = readTokenLog(folder);
    const path = join(folder, "tokens");
    writeFileSync(path, file);
    const { status, stdout, stderr } = await runCli(["token", "import", path, "--data", folder]);
    assert.deepEqual([status, stdout], [3, ""], stderr);
    const named = Array.from(stderr.matchAll(/refused line (\d+): /g), ([, line]) => Number(line));
    assert.deepEqual(named, lines, stderr);
    assert.ok(!stderr.includes(LINE.hash), "no hash is shown");
    assert.equal(readTokenLog(folder), log);
  });
}

test("of many damaged lines the first are named, and the others are counted", async (t) => {
  const folder = makeFolder(t);
  const stdin = "garden\n".repeat(22);
  const { status, stderr } = await runCli(["token", "import", "-", "--data", folder], { stdin });
  const said = stderr.trimEnd().split("\n");
  assert.deepEqual([status, said.length], [3, 22]);
  assert.match(said[20] ?? "", /refused 2 more lines$/);
});

test("a conflict is refused by name with status 3, and changes nothing", async (t) => {
  const folder = makeFolder(t);
  await importTokens(folder, [{ ...LINE, scopes: ["write"], createdAt: 1 }]);
  const log = readTokenLog(folder);
  const stdin = [
    { ...LINE, name: "new", hash: "1".repeat(64) },
    { ...LINE, hash: "2".repeat(64) },
  ]
    .map((line) => JSON.stringify(line))
    .join("\n");
  const end = await runCli(["token", "import", "-", "--data", folder], { stdin });
  assert.deepEqual([end.status, end.stdout], [3, ""]);
  assert.match(end.stderr, /nothing was imported: [^\n]*"app"/);
  assert.equal(readTokenLog(folder), log);
});

test("a file that cannot be read is named, and no folder is made", async (t) => {
  const folder = makeFolder(t);
  for (const file of [join(folder, "missing"), folder]) {
    const end = await runCli(["token", "import", file, "--data", join(folder, "data")]);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.ok(end.stderr.includes(`"${file}"`), end.stderr);
  }
  const end = await runCli(["token", "export", "--data", join(folder, "data")]);
  assert.deepEqual([end.status, end.stdout], [1, ""]);
  assert.equal(existsSync(join(folder, "data")), false);
});

test("token import into a folder that is new makes it, and names it", async (t) => {
  const folder = makeFolder(t);
  const stdin = JSON.stringify(LINE);
  const end = await runCli(["token", "import", "-", "--data", "data"], { cwd: folder, stdin });
  assert.equal(end.status, 0);
  assert.ok(end.stderr.includes(`"${join(folder, "data")}"`), end.stderr);
  assert.equal((await listTokens(join(folder, "data")))[0]?.hash, LINE.hash);
});
