/** The units, checked by systemd's own tools. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { serviceUnit, socketUnit } from "../../src/cli/print.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";

const NEEDS_SYSTEMD =
  spawnSync("systemd-analyze", ["--version"]).status === 0
    ? {}
    : { skip: "needs systemd-analyze, not found here" };

/** The worst exposure allowed, in tenths as systemd-analyze takes it. */
const EXPOSURE_MAX = 19;

async function print(...options: string[]): Promise<string> {
  const end = await runCli(["print", "systemd-unit", ...options]);
  assert.deepEqual([end.status, end.stderr], [0, ""]);
  return end.stdout;
}

/** Runs systemd-analyze on unit files in a folder of their own. */
function analyze(t: TestContext, units: Record<string, string>, ...words: string[]) {
  const folder = makeFolder(t);
  const paths = Object.entries(units).map(([name, text]) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  });
  return spawnSync("systemd-analyze", [...words, ...paths], { encoding: "utf8" });
}

describe("print systemd-unit, checked by systemd", NEEDS_SYSTEMD, () => {
  test("systemd accepts both units without a warning", async (t) => {
    const [service, socket] = await Promise.all([print("--unit=service"), print("--unit=socket")]);
    const units = { "plant-store.service": service, "plant-store.socket": socket };
    const { status, stdout, stderr } = analyze(t, units, "verify");
    assert.deepEqual([status, stdout, stderr], [0, "", ""]);
  });

  test("the exposure of the service is below 2.0", async (t) => {
    const units = { "plant-store.service": await print("--unit=service") };
    const words = ["security", "--offline=true", `--threshold=${EXPOSURE_MAX}`];
    const { status, stdout } = analyze(t, units, ...words);
    assert.equal(status, 0, stdout);
    const naked = { "plant-store.service": "[Service]\nExecStart=/bin/true\n" };
    assert.notEqual(analyze(t, naked, ...words).status, 0, "the check must find something");
  });

  test("a program at an odd path is accepted", (t) => {
    // systemd looks the program up, so the odd words follow a program that exists.
    const command = [process.execPath, '/srv/a "b" 50% $HOME\\c.js', "serve"];
    const units = {
      "plant-store.service": serviceUnit(command),
      "plant-store.socket": socketUnit("[::1]:80"),
    };
    const { status, stderr } = analyze(t, units, "verify");
    assert.deepEqual([status, stderr], [0, ""]);
  });
});

test("the unit restarts the service after a failure except status 2 and 3, lets it stop in time, and lets V8 compile", async () => {
  const text = await print("--unit=service");
  for (const line of [
    "Restart=on-failure",
    "RestartPreventExitStatus=2 3",
    "TimeoutStopSec=90",
    "DynamicUser=yes",
    "StateDirectory=plant-store",
    "RuntimeDirectory=plant-store",
    "ProtectSystem=strict",
    "CapabilityBoundingSet=",
    "LimitNOFILE=65536",
    "LimitCORE=0",
    "MemoryDenyWriteExecute=no",
  ]) {
    assert.ok(text.split("\n").includes(line), line);
  }
  assert.match(text, /^ExecStart=\S.* serve$/m);
});

test("a failure that needs a person stops the socket too, so that no client starts the service", async (t) => {
  const unit = await print("--unit=service");
  const [, script = ""] = /^ExecStopPost=\+\/bin\/sh -c '(.*)'$/m.exec(unit) ?? [];
  const folder = makeFolder(t);
  writeFileSync(join(folder, "systemctl"), '#!/bin/sh\necho "$*"\n', { mode: 0o700 });
  const stop = "--no-block stop plant-store.socket\n";
  // If a signal ended the service, its status is the name of the signal (systemd.exec(5)).
  for (const [status, printed] of Object.entries({ 0: "", 1: "", 2: stop, 3: stop, KILL: "" })) {
    const env = { PATH: folder, EXIT_STATUS: status };
    // systemd turns "$$" into "$".
    const end = spawnSync("/bin/sh", ["-c", script.replaceAll("$$", "$")], {
      env,
      encoding: "utf8",
    });
    assert.deepEqual([end.status, end.stdout, end.stderr], [0, printed, ""], status);
  }
});

test("both units are printed with the names of their files, and the socket listens at the given address", async () => {
  const [both, socket] = await Promise.all([print(), print("--unit=socket", "--host=::1")]);
  assert.match(both, /^# \S+\/plant-store\.service\n\[Unit\]/);
  assert.match(both, /^ListenStream=127\.0\.0\.1:8080$/m);
  assert.match(socket, /^ListenStream=\[::1\]:8080$/m);
});

test("an address that systemd cannot listen on is wrong usage", async () => {
  for (const words of [["--host=localhost"], ["--port=0"], ["--unit=timer"]]) {
    const end = await runCli(["print", "systemd-unit", ...words]);
    assert.deepEqual([end.status, end.stdout], [2, ""], words.join());
  }
});
