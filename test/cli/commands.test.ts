import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { commands } from "../../src/cli/token-commands.ts";
import { POLL_INTERVAL_MS } from "../../src/core/live-tokens.ts";
import { createToken, TokenRegistry } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { readLog, writeLog } from "../support/stores.ts";
import { judge } from "../support/token-files.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 4 };

const LINES = [
  '{"id":7,"name":"Fern","tag":"indoor"}',
  '{"id":-5,"name":"Moss"}',
  '{"id":9007199254740993,"name":"","tag":""}',
  '{"id":-9223372036854775808,"name":"Aloë \\ud800 🌵"}',
];
const LOG = `${LINES.join("\n")}\n`;

describe("get prints the plant of an id as its line", AT_ONCE, () => {
  const IDS: readonly [id: string, line: string | undefined][] = [
    ["70e-1", LINES[0]],
    ["-5", LINES[1]],
    ["9007199254740993", LINES[2]],
    ["-9223372036854775808", LINES[3]],
  ];
  for (const [id, line] of IDS) {
    test(`id ${id}`, async (t) => {
      const folder = makeFolder(t);
      writeLog(folder, LOG);
      const end = await runCli(["get", "--data", folder, "--", id]);
      assert.deepEqual(end, { status: 0, signal: null, stdout: `${line}\n`, stderr: "" });
    });
  }
  test("an unknown id: status 1, and only a message", async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, LOG);
    // The third plant's id, rounded to a double.
    const end = await runCli(["get", "9007199254740992", "--data", folder]);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.ok(end.stderr.includes("9007199254740992"));
  });
});

test("export prints every plant as a line, oldest first, without a torn last line", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, `${LOG}{"id":8,"na`);
  const end = await runCli(["export", "--data", folder]);
  assert.deepEqual(end, { status: 0, signal: null, stdout: LOG, stderr: "" });
  assert.equal(readLog(folder), `${LOG}{"id":8,"na`);
});

test("export prints a log of several blocks whole, also into a slow pipe", async (t) => {
  const folder = makeFolder(t);
  const line = (id: number) => `{"id":${id},"name":"${"Fern".repeat(50)}"}\n`;
  const log = Array.from({ length: 12_000 }, (_, id) => line(id)).join("");
  writeLog(folder, log);
  const end = await runCli(["export", "--data", folder]);
  assert.equal(end.status, 0);
  assert.equal(
    end.stdout === log,
    true,
    "compared by hand, because a diff of megabytes helps nobody",
  );
});

test("export prints thousands of plants with a few writes", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, Array.from({ length: 5000 }, (_, id) => `{"id":${id},"name":"a"}\n`).join(""));
  const source = `
    let writes = 0;
    const { write } = process.stdout;
    process.stdout.write = (...args) => { writes++; return write.apply(process.stdout, args); };
    process.on("exit", () => process.stderr.write(String(writes)));`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
  const { status, stderr } = await runCli(["export", "--data", folder], { env });
  assert.equal(status, 0);
  assert.ok(Number(stderr) > 0 && Number(stderr) < 10, stderr);
});

test("export of a store without plants prints nothing and succeeds", async (t) => {
  const folder = makeFolder(t);
  writeLog(folder, "");
  const end = await runCli(["export", "--data", folder]);
  assert.deepEqual(end, { status: 0, signal: null, stdout: "", stderr: "" });
});

test("token create prints only the token, which is valid at once and not stored", async (t) => {
  const folder = makeFolder(t);
  mkdirSync(join(folder, "data"), 0o700);
  // No --data: the default is the folder `data` where the command is run.
  const end = await runCli(["token", "create", "gardener"], { cwd: folder });
  assert.deepEqual([end.status, end.stderr], [0, ""]);
  assert.match(end.stdout, /^pst_[A-Za-z0-9_-]{43}\n$/);
  const token = end.stdout.trim();
  const registry = await TokenRegistry.open(join(folder, "data"));
  t.after(() => registry.close());
  const verdict = judge(registry, token);
  assert.deepEqual([verdict?.name, verdict?.scopes], ["gardener", ["write"]]);
  const stored = readFileSync(join(folder, "data", "tokens.jsonl"), "utf8");
  assert.ok(!stored.includes(token.slice(4)));
});

test("token create ends when running servers have polled their tokens", async (t) => {
  const create = commands.find(({ name }) => name === "token create");
  const write = process.stdout.write.bind(process.stdout);
  let printedAt = Number.NaN;
  t.mock.method(process.stdout, "write", (bytes: Buffer, done: () => void) => {
    if (!String(bytes).startsWith("pst_")) return write(bytes, done);
    printedAt = performance.now();
    return done();
  });
  await create?.run(["one"], { data: makeFolder(t), scope: ["write"] });
  const waitedMs = performance.now() - printedAt;
  assert.ok(waitedMs > POLL_INTERVAL_MS, `${waitedMs} ms`);
});

test("token create in a folder that is new names it on standard error", async (t) => {
  const folder = makeFolder(t);
  const words = ["token", "create", "gardener", "--data", "dtaa"];
  const { status, stdout, stderr } = await runCli(words, { cwd: folder });
  assert.equal(status, 0);
  assert.match(stdout, /^pst_[^\n]+\n$/);
  assert.match(stderr, /^plant-store: [^\n]+\n$/);
  assert.ok(stderr.includes(`"${join(folder, "dtaa")}"`), stderr);
});

test("token create takes each scope and an expiry, and refuses a name that is taken", async (t) => {
  const folder = makeFolder(t);
  const words = ["token", "create", "a.b_c@d-1", "--data", folder];
  const options = ["--scope", "read", "--scope", "write", "--expires", "2999-12-31"];
  const first = await runCli([...words, ...options]);
  assert.equal(first.status, 0);
  const second = await runCli(words);
  assert.deepEqual([second.status, second.stdout], [1, ""]);
  assert.ok(second.stderr.includes('"a.b_c@d-1"'));
  const list = await runCli(["token", "list", "--json", "--data", folder]);
  const { created, ...row } = JSON.parse(list.stdout);
  assert.deepEqual(row, {
    name: "a.b_c@d-1",
    scopes: ["write", "read"],
    state: "live",
    expires: "2999-12-31T23:59:59.999Z",
  });
  assert.ok(Math.abs(Date.parse(created) - Date.now()) < 3_600_000, created);
});

const TOKENS = [
  { name: "old", expiresAt: "2020-02-01T00:00:00.000Z" },
  { name: "gone", revokedAt: "2020-01-02T00:00:00.000Z" },
  { name: "gardener" },
].map((token, at) => {
  const rest = { scopes: ["write"], createdAt: "2020-01-01T00:00:00.000Z" };
  return `${JSON.stringify({ hash: `${at}a`.repeat(32), ...rest, ...token })}\n`;
});

test("token list shows each token on a line under its heading, never a hash", async (t) => {
  const folder = makeFolder(t);
  writeFileSync(join(folder, "tokens.jsonl"), TOKENS.join(""));
  const end = await runCli(["token", "list", "--data", folder]);
  assert.deepEqual([end.status, end.stderr], [0, ""]);
  const created = "2020-01-01T00:00:00.000Z";
  const cells = end.stdout.split("\n").map((line) => line.split(/ {2,}/));
  assert.deepEqual(cells, [
    ["NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"],
    ["old", "write", "expired", created, "2020-02-01T00:00:00.000Z"],
    ["gone", "write", "revoked", created, "never"],
    ["gardener", "write", "live", created, "never"],
    [""],
  ]);
  const starts = end.stdout
    .trimEnd()
    .split("\n")
    .map((line) => /write|SCOPES/.exec(line)?.index);
  assert.equal(new Set(starts).size, 1, "the columns are aligned");
});

test("token list --json prints the same as a line of JSON for each", async (t) => {
  const folder = makeFolder(t);
  writeFileSync(join(folder, "tokens.jsonl"), TOKENS.join(""));
  const end = await runCli(["token", "list", "--json", "--data", folder]);
  const rows = end.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const row = { scopes: ["write"], created: "2020-01-01T00:00:00.000Z", expires: null };
  assert.deepEqual(rows, [
    { ...row, name: "old", state: "expired", expires: "2020-02-01T00:00:00.000Z" },
    { ...row, name: "gone", state: "revoked" },
    { ...row, name: "gardener", state: "live" },
  ]);
});

test("token list without tokens shows only its headings, and changes nothing", async (t) => {
  const folder = makeFolder(t);
  const end = await runCli(["token", "list", "--data", folder]);
  assert.equal(end.status, 0);
  assert.equal(end.stdout.split("\n").length, 2);
  assert.deepEqual(readdirSync(folder), []);
});

test("token list and revoke make no folder", async (t) => {
  const folder = join(makeFolder(t), "nothing-here");
  for (const words of [["list"], ["revoke", "gardener"]]) {
    assert.equal((await runCli(["token", ...words, "--data", folder])).status, 1);
  }
  assert.equal(existsSync(folder), false);
});

test("token revoke revokes the live token of a name, prints nothing, and fails the second time", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const other = await createToken(folder, { name: "other" });
  const words = ["token", "revoke", "gardener", "--data", folder];
  assert.deepEqual(await runCli(words), { status: 0, signal: null, stdout: "", stderr: "" });
  const registry = await TokenRegistry.open(folder);
  t.after(() => registry.close());
  assert.equal(judge(registry, token), undefined);
  assert.notEqual(judge(registry, other), undefined);
  const again = await runCli(words);
  assert.deepEqual([again.status, again.stdout], [1, ""]);
  assert.ok(again.stderr.includes('"gardener"'));
});

test("a data directory may have a short relative name, and missing parents", async (t) => {
  const folder = makeFolder(t);
  for (const data of ["d", "a/b/c"]) {
    const { status, stderr } = await runCli(["token", "create", "x", "--data", data], {
      cwd: folder,
    });
    assert.equal(status, 0, stderr);
    assert.equal(statSync(join(folder, data)).mode & 0o777, 0o700);
  }
});
