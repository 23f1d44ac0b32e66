/** The units, checked by systemd's own tools. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { serviceUnit, socketUnit } from "../../src/cli/print.ts";
import { runCli } from "../support/cli.ts";
import { readPage } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { runToEnd } from "../support/run.ts";
import { writeLog } from "../support/stores.ts";

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
  test("systemd accepts all units without a warning", async (t) => {
    const kinds = ["service", "socket", "backup", "timer"];
    const [service = "", socket = "", backup = "", timer = ""] = await Promise.all(
      kinds.map((kind) => print(`--unit=${kind}`)),
    );
    const units = {
      "plant-store.service": service,
      "plant-store.socket": socket,
      "plant-store-backup.service": backup,
      "plant-store-backup.timer": timer,
    };
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

test("the unit restarts the service after a failure except status 2, 3 and 9, lets it stop in time, and lets V8 compile", async () => {
  const text = await print("--unit=service");
  for (const line of [
    "Restart=on-failure",
    "RestartPreventExitStatus=2 3 9",
    "TimeoutStopSec=90",
    "User=plant-store",
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

test("the service and its backup run as the system user that --unit=user describes", {
  skip:
    spawnSync("systemd-sysusers", ["--version"]).status === 0 ? false : "needs systemd-sysusers",
}, async (t) => {
  const root = makeFolder(t);
  mkdirSync(join(root, "etc"));
  const file = join(root, "plant-store.conf");
  writeFileSync(file, await print("--unit=user"));
  const end = spawnSync("systemd-sysusers", [`--root=${root}`, file], { encoding: "utf8" });
  assert.equal(end.status, 0, end.stderr);
  const [, name = ""] = /^([a-z-]+):/m.exec(readFileSync(join(root, "etc/passwd"), "utf8")) ?? [];
  for (const unit of ["service", "backup"]) {
    assert.ok((await print(`--unit=${unit}`)).includes(`\nUser=${name}\n`), unit);
  }
});

test("a failure that needs a person stops the socket too, so that no client starts the service", async (t) => {
  const unit = await print("--unit=service");
  const [, script = ""] = /^ExecStopPost=\+\/bin\/sh -c '(.*)'$/m.exec(unit) ?? [];
  const folder = makeFolder(t);
  writeFileSync(join(folder, "systemctl"), '#!/bin/sh\necho "$*"\n', { mode: 0o700 });
  const stop = "--no-block stop plant-store.socket\n";
  // If a signal ended the service, its status is the name of the signal (systemd.exec(5)).
  for (const [status, printed] of Object.entries({
    0: "",
    1: "",
    2: stop,
    3: stop,
    9: stop,
    KILL: "",
  })) {
    const env = { PATH: folder, EXIT_STATUS: status };
    // systemd turns "$$" into "$".
    const end = spawnSync("/bin/sh", ["-c", script.replaceAll("$$", "$")], {
      env,
      encoding: "utf8",
    });
    assert.deepEqual([end.status, end.stdout, end.stderr], [0, printed, ""], status);
  }
});

test("the unit starts this Node, without its debugger if it can be switched off", async () => {
  const [, command = ""] = /^ExecStart=(.*)$/m.exec(await print("--unit=service")) ?? [];
  const [node = "", ...words] = command.split(" ");
  const known = process.allowedNodeEnvironmentFlags.has("--disable-sigusr1");
  assert.deepEqual([node, words.includes("--disable-sigusr1")], [process.execPath, known]);
  // With the flag given already, it is there once.
  const again = await runToEnd([node, ...words.slice(0, -1), "print", "systemd-unit"]);
  assert.deepEqual([again.status, again.stderr], [0, ""]);
  assert.ok(again.stdout.includes(`\nExecStart=${command}\n`), again.stdout);
});

test("the unit bounds the heap as the image does, if this Node can", async () => {
  const [flag = "", name] =
    /NODE_OPTIONS=((--[a-z-]+)=\d+)/.exec(readPage("docs/Dockerfile")) ?? [];
  const known = process.allowedNodeEnvironmentFlags.has(name ?? assert.fail());
  const lines = (await print("--unit=service")).split("\n");
  assert.equal(lines.includes(`Environment=${flag}`), known);
});

test("the unit repeats every flag of this Node, also one that is given twice", async () => {
  const flags = ["--import", "node:fs", "--import", "node:path"];
  const words = [PROGRAM, "print", "systemd-unit", "--unit=service"];
  const { stdout, stderr } = await runToEnd([process.execPath, ...flags, ...words]);
  assert.ok(
    stdout.includes(`\nExecStart=${process.execPath} ${flags.join(" ")} `),
    stdout + stderr,
  );
});

test("the backup unit makes a numbered backup without a shell, and keeps the newest ones", async (t) => {
  const [data, parent] = [makeFolder(t), makeFolder(t)];
  writeLog(data, '{"id":1,"name":"Fern"}\n');
  const folder = join(parent, "state of a service");
  const unit = await print("--unit=backup", "--keep=2");
  assert.doesNotMatch(unit, /\bsh\b|ExecStartPost/);
  const [, line = ""] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
  // systemd makes one word of a variable in braces, whatever its value is (systemd.service(5)).
  const program = line.split(" ").map((word) => {
    return word
      .replace(/^\$\{STATE_DIRECTORY\}$/, folder)
      .replace(/^\/var\/lib\/plant-store$/, data);
  });
  const old = [1, 2, 3].map((number) => `plants-00000${number}-20260101T000000Z`);
  for (const name of [...old, `${old[2]}.unfinished-0`, "other"]) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  const namesAfter = async () => {
    const { status, stderr } = await runToEnd(program);
    assert.deepEqual([status, stderr], [0, ""]);
    return readdirSync(folder).filter((name) => !name.startsWith("lock."));
  };
  const [other, kept, first = ""] = await namesAfter();
  assert.deepEqual([other, kept], ["other", old[2]]);
  assert.match(first, /^plants-000004-\d{8}T\d{6}Z$/);
  assert.equal((await runCli(["verify", "--data", join(folder, first)])).status, 0);
  const [, second, third = "", ...more] = await namesAfter();
  assert.deepEqual([second, more], [first, []]);
  assert.match(third, /^plants-000005-/);
});

test("all units are printed with the names of their files, and the socket listens at the given address", async () => {
  const [all, socket] = await Promise.all([print(), print("--unit=socket", "--host=::1")]);
  const names = ["plant-store.conf", "plant-store.service", "plant-store.socket"];
  const backups = ["plant-store-backup.service", "plant-store-backup.timer"];
  const printed = Array.from(
    all.matchAll(/^# \S+\/(plant-store\S+)\n(?:\[Unit\]|u plant-store - .*)$/gm),
    ([, name]) => name,
  );
  assert.deepEqual(printed, [...names, ...backups]);
  assert.match(all, /^ListenStream=127\.0\.0\.1:8080$/m);
  assert.match(socket, /^ListenStream=\[::1\]:8080$/m);
});

test("an address that systemd cannot listen on is wrong usage", async () => {
  for (const words of [["--host=localhost"], ["--port=0"], ["--unit=mount"], ["--keep=0"]]) {
    const end = await runCli(["print", "systemd-unit", ...words]);
    assert.deepEqual([end.status, end.stdout], [2, ""], words.join());
  }
});
