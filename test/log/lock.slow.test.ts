/** The lock while another program puts links in place of its socket. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { DirectoryLock } from "../../src/log/lock.ts";
import { makeFolder } from "../support/folders.ts";
import {
  AS_SERVICE,
  canRunAsService,
  makeServiceFolder,
  NEEDS_ROOT,
} from "../support/other-user.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const second = { name: "lock", command: "second" };

/** So many locks are taken; a lock that calls chmod would follow a link within fewer. */
const LOCKS_AMID_SWAPS = 600;

/** Puts a link to a file in place of every new socket, and reports it. */
const SWAP = `import fs from "node:fs";
const [folder, file] = process.argv.slice(1);
fs.symlinkSync(file, folder + "/link");
fs.writeSync(1, "ready\\n");
for (;;) {
  for (const name of fs.readdirSync(folder)) {
    if (!name.includes(".new-")) continue;
    fs.renameSync(folder + "/link", folder + "/" + name);
    fs.symlinkSync(file, folder + "/link");
    fs.writeSync(1, "swapped\\n");
  }
}`;

test("root that takes a lock in another user's folder changes no file put in place of its socket", {
  ...NEEDS_ROOT,
  ...TIMEOUT,
}, async (t) => {
  if (!canRunAsService(t)) return;
  const folder = makeServiceFolder(t);
  const file = path.join(makeFolder(t), "shadow");
  fs.writeFileSync(file, "", { mode: 0o600 });
  const words = ["--input-type=module", "-e", SWAP, folder, file];
  const [program = "", ...args] = AS_SERVICE;
  const owner = spawn(program, [...args, process.execPath, ...words]);
  t.after(() => owner.kill("SIGKILL"));
  let output = "";
  owner.stdout.on("data", (text) => {
    output += text;
  });
  await until("the other program is ready", () => output.includes("ready"));
  for (let time = 0; time < LOCKS_AMID_SWAPS; time++) {
    await DirectoryLock.acquire(folder, second).then(
      (lock) => lock.close(),
      () => {},
    );
  }
  await until("sockets were swapped", () => output.includes("swapped"));
  const { uid, gid, mode } = fs.statSync(file);
  assert.deepEqual([uid, gid, mode & 0o777], [0, 0, 0o600]);
});
