import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { flagOf } from "../../src/cli/command.ts";
import { SERVE_OPTIONS } from "../../src/cli/serve.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";

test("serve --print-config shows every option, its value and its source, and starts nothing", async (t) => {
  const data = join(makeFolder(t), "data");
  const args = ["serve", "--print-config", "--port", "9", "--admin=9180"];
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
  const names = Object.keys(SERVE_OPTIONS).map((name) => flagOf(name).slice(2));
  assert.deepEqual([...shown.keys()], names);
  assert.deepEqual(shown.get("port"), ["9", "--port"]);
  assert.deepEqual(shown.get("log-level"), ["warn", "PLANT_STORE_LOG_LEVEL"]);
  assert.deepEqual(shown.get("data"), [data, "default"]);
  assert.deepEqual(shown.get("host"), ["127.0.0.1", "default"]);
  assert.deepEqual(shown.get("tls-key"), ["-", "not set"]);
  assert.deepEqual(shown.get("log"), ["-", "not set"]);
  assert.deepEqual(shown.get("admin"), ["9180", "--admin"]);
  assert.equal(existsSync(data), false);
});

test("serve --print-config reads no file, so it works even if serve could not start", async (t) => {
  const data = join(makeFolder(t), "data");
  writeFileSync(data, "no folder");
  const files = ["--tls-cert", join(data, "cert.pem"), "--tls-key", join(data, "key.pem")];
  const end = await runCli(["serve", "--print-config", "--data", data, ...files]);
  assert.deepEqual([end.status, end.stderr], [0, ""]);
});

test("serve --print-config shows the format of the log that was asked for", async () => {
  const { stdout } = await runCli(["serve", "--print-config", "--log", "off"]);
  assert.match(stdout, /^log +off +--log$/m);
});

const REFUSED: readonly string[][] = [
  ["--port", "x"],
  ["--tls-cert", "cert.pem"],
  ["--tls-key", "key.pem"],
];
for (const args of REFUSED) {
  test(`serve --print-config refuses ${args.join(" ")} as serve does`, async (t) => {
    const data = join(makeFolder(t), "data");
    const words = ["serve", "--data", data, ...args];
    const [served, shown] = await Promise.all([
      runCli(words),
      runCli([...words, "--print-config"]),
    ]);
    assert.deepEqual([served.status, served.stdout], [2, ""]);
    assert.deepEqual(shown, served);
    assert.equal(existsSync(data), false);
  });
}
