/** The units of the service and of its daily backup, checked by systemd's own tools. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";

const NEEDS_SYSTEMD =
  spawnSync("systemd-analyze", ["--version"]).status === 0
    ? {}
    : { skip: "needs systemd-analyze, not found here" };

/** The worst exposure allowed, in tenths as systemd-analyze takes it. */
const EXPOSURE_MAX = 19;

async function printUnit(): Promise<string> {
  const end = await runCli(["print", "systemd-unit"]);
  assert.deepEqual([end.status, end.stderr], [0, ""]);
  return end.stdout;
}

/** Runs systemd-analyze on a service in a folder of its own. */
function analyze(t: TestContext, unit: string, ...words: string[]) {
  const file = join(makeFolder(t), "plant-store.service");
  writeFileSync(file, unit);
  return spawnSync("systemd-analyze", [...words, file], { encoding: "utf8" });
}

test("systemd accepts the service without a warning", NEEDS_SYSTEMD, async (t) => {
  const { status, stdout, stderr } = analyze(t, await printUnit(), "verify");
  assert.deepEqual([status, stdout, stderr], [0, "", ""]);
});

test("systemd accepts the units of the daily backup", NEEDS_SYSTEMD, () => {
  const files = ["service", "timer"].map((type) => `docs/deploy/plant-store-backup.${type}`);
  const options = { cwd: ROOT, encoding: "utf8" } as const;
  const { stderr } = spawnSync("systemd-analyze", ["verify", ...files], options);
  const faults = stderr.split("\n").filter((line) => line.includes("plant-store-backup"));
  const unknown = faults.filter((line) => !line.includes("/usr/local/bin/plant-store"));
  assert.deepEqual(unknown, []);
});

test("the exposure of the service is below 2.0", NEEDS_SYSTEMD, async (t) => {
  const words = ["security", "--offline=true", `--threshold=${EXPOSURE_MAX}`];
  const { status, stdout } = analyze(t, await printUnit(), ...words);
  assert.equal(status, 0, stdout);
  const naked = "[Service]\nExecStart=/bin/true\n";
  assert.notEqual(analyze(t, naked, ...words).status, 0, "the check must find something");
});

test("the unit starts this program, again after 1 only, loses no line of the log, and lets V8 compile", async () => {
  const unit = await printUnit();
  for (const line of [
    "RestartPreventExitStatus=2 3 9",
    "LogRateLimitIntervalSec=0",
    "LimitCORE=0",
  ]) {
    assert.ok(unit.includes(`\n${line}\n`), line);
  }
  assert.doesNotMatch(unit, /^MemoryDenyWriteExecute=yes/m);
  assert.match(unit, /^ExecStart="\/.*" ".*" serve$/m);
});
