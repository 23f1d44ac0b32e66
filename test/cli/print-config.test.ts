import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SERVE_OPTIONS } from "../../src/cli/serve-options.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";

test("serve --print-config shows every option, its value and its source, and starts nothing", async (t) => {
  const data = join(makeFolder(t), "data");
  const args = ["serve", "--print-config", "--port", "9", "--admin=./a\u001b.sock"];
  const end = await runCli(args, {
    env: { PLANT_STORE_LOG_LEVEL: "warn", PLANT_STORE_PORT: "10", STATE_DIRECTORY: data },
  });
  assert.deepEqual([end.status, end.stderr], [0, ""]);
  const rows = end.stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split(/ {2,}/));
  assert.deepEqual(rows[0], ["OPTION", "VALUE", "FROM"]);
  const shown = new Map(rows.slice(1).map(([option = "", ...rest]) => [option, rest]));
  assert.deepEqual([...shown.keys()], Object.keys(SERVE_OPTIONS));
  assert.deepEqual(shown.get("port"), ["9", "--port"]);
  assert.deepEqual(shown.get("log-level"), ["warn", "PLANT_STORE_LOG_LEVEL"]);
  assert.deepEqual(shown.get("data"), [data, "STATE_DIRECTORY"]);
  assert.deepEqual(shown.get("host"), ["127.0.0.1", "default"]);
  assert.deepEqual(shown.get("tls-key"), ["-", "not set"]);
  assert.deepEqual(shown.get("admin"), ["./a\\u001b.sock", "--admin"]);
  assert.equal(existsSync(data), false);
});

test("serve --print-config refuses what serve would refuse", async () => {
  const end = await runCli(["serve", "--print-config", "--port", "x"]);
  assert.deepEqual([end.status, end.stdout], [2, ""]);
});
