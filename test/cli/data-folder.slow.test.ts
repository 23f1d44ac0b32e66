/**
 * Commands that root runs in a data directory of another user, who has put traps there. The files
 * of root must be the same afterwards.
 */
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import net, { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { canRun, statusField } from "../faults/machine.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { runCli, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { codeBlocks } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import {
  AS_SERVICE,
  canRunAsService,
  makeServiceFolder,
  NEEDS_ROOT,
  SERVICE,
} from "../support/other-user.ts";
import { postPlant } from "../support/post.ts";
import { PROGRAM } from "../support/program.ts";
import { type Finished, runToEnd } from "../support/run.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern"}';
const SECRET = "a secret of root";

/** Runs a command as root; kills it if it hangs. */
function run(folder: string, ...words: readonly string[]): Promise<Finished> {
  const program = [process.execPath, PROGRAM, ...words, "--data", folder];
  return runToEnd(program, { timeout: 20_000 });
}

function runAsService(folder: string, ...words: readonly string[]): Promise<Finished> {
  const program = [...AS_SERVICE, process.execPath, PROGRAM, ...words, "--data", folder];
  return runToEnd(program, { timeout: 20_000 });
}

/** All that a command could change in the files of a folder. */
function describeFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .sort()
    .map((name) => {
      const { uid, gid, mode, size, mtimeMs } = lstatSync(join(folder, name));
      const isFile = lstatSync(join(folder, name)).isFile();
      const text = isFile ? readFileSync(join(folder, name), "latin1") : "";
      return [name, uid, gid, mode.toString(8), size, mtimeMs, text].join(" ");
    });
}

/** A folder of root (0700) that holds a file of root (0600). */
function makeVault(t: TestContext): string {
  const vault = makeFolder(t);
  // The lines of a log, so that a command that follows a trap would accept them.
  const lines = `${JSON.stringify({ id: 7, name: SECRET })}\n`;
  writeFileSync(join(vault, "shadow"), lines, { mode: 0o600 });
  return vault;
}

/** What the owner of a folder puts in place of a file. Here root does it, so that every trap can be made. */
const TRAPS: Readonly<Record<string, (place: string, vault: string) => void>> = {
  "a link to a file of root": (place, vault) => symlinkSync(join(vault, "shadow"), place),
  "a link to no file, in a folder of root": (place, vault) =>
    symlinkSync(join(vault, "evil"), place),
  "another name of a file of root": (place, vault) => linkSync(join(vault, "shadow"), place),
  "a FIFO": (place) => {
    execFileSync("mkfifo", ["-m", "600", place]);
    chownSync(place, SERVICE, SERVICE);
  },
  "a folder": (place) => {
    mkdirSync(place);
    chownSync(place, SERVICE, SERVICE);
  },
};

const TOKEN_LINE = `{"name":"app","hash":"${"0".repeat(64)}","scopes":["write"],"createdAt":"2026-01-01T00:00:00.000Z"}\n`;

const IMPORT = ["import", "/dev/null"];
const REPAIR = ["repair", "--yes"];

/** Which commands open which files. */
const PLACES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "tokens.jsonl": [
    ["token", "create", "gardener"],
    ["token", "list"],
    ["token", "export"],
    ["token", "import", "/dev/null"],
  ],
  "plants.jsonl": [IMPORT, ["export"], ["verify"], REPAIR],
  "plants.jsonl.checkpoint": [IMPORT, REPAIR],
  "plants.jsonl.checkpoint.new": [IMPORT],
  "plants.jsonl.index": [IMPORT],
  "plants.jsonl.index.new": [IMPORT],
  "plants.jsonl.quarantine-1": [IMPORT],
  "plants.jsonl.repaired": [REPAIR],
  "plants.jsonl.before-repair-1": [REPAIR],
  "lock.1": [IMPORT],
  "lock.99": [["list"]],
  "tokens-lock.1": [["token", "create", "gardener"]],
};

/** A log with a torn tail for an import to quarantine, or with a line for a repair to leave out. */
function writeLogFor(folder: string, [command]: readonly string[]): void {
  const text = command === "repair" ? `${FERN}\nrubbish\n` : `${FERN}\n{"id":2,`;
  writeLog(folder, text);
  chownSync(logPath(folder), SERVICE, SERVICE);
}

const SETTINGS = { ...NEEDS_ROOT, ...TIMEOUT, concurrency: 2 };

describe("as root, with traps in a folder of another user", SETTINGS, () => {
  for (const [name, commands] of Object.entries(PLACES)) {
    for (const [trap, set] of Object.entries(TRAPS)) {
      test(`with ${trap} as ${name}, no file of root is made, read, changed or given away`, async (t) => {
        for (const words of commands) {
          const vault = makeVault(t);
          const folder = makeServiceFolder(t);
          if (name !== "plants.jsonl") writeLogFor(folder, words);
          set(join(folder, name), vault);
          const before = describeFiles(vault);
          const { status, signal, stdout, stderr } = await run(folder, ...words);
          const how = `${words.join(" ")}: ${stderr}`;
          assert.deepEqual([typeof status, signal], ["number", null], how);
          assert.deepEqual(describeFiles(vault), before, how);
          assert.equal(`${stdout}${stderr}`.includes(SECRET), false, how);
          assertHoldsNothingOfRoots(folder, name);
        }
      });
    }
  }
});

describe("as root in a folder of another user", SETTINGS, () => {
  test("a server and a backup do not follow a link to a file of root", async (t) => {
    for (const name of ["tokens.jsonl", "plants.jsonl", "plants.jsonl.checkpoint.new"]) {
      const vault = makeVault(t);
      const folder = makeServiceFolder(t);
      if (name !== "plants.jsonl") writeLogFor(folder, []);
      symlinkSync(join(vault, "shadow"), join(folder, name));
      const before = describeFiles(vault);
      const target = join(makeFolder(t), "copy");
      await run(folder, "backup", target);
      const child = spawn(process.execPath, [PROGRAM, "serve", "--port=0", "--data", folder]);
      t.after(() => child.kill("SIGKILL"));
      await new Promise<void>((resolve) => {
        child.stdout.once("data", () => child.kill());
        child.once("close", () => resolve());
      });
      assert.deepEqual(describeFiles(vault), before, name);
      assertHoldsNothingOfRoots(folder, name);
      if (statSync(target, { throwIfNoEntry: false }) === undefined) continue;
      for (const copy of readdirSync(target)) {
        assert.equal(readFileSync(join(target, copy), "utf8").includes(SECRET), false, copy);
      }
    }
  });

  test("in a folder of root's group, a command does not keep the rights of that group", async (t) => {
    const vault = makeVault(t);
    const folder = makeServiceFolder(t);
    chownSync(folder, SERVICE, 0);
    chmodSync(vault, 0o750);
    chmodSync(join(vault, "shadow"), 0o660);
    symlinkSync(join(vault, "shadow"), logPath(folder));
    const { status, stdout } = await run(folder, "list");
    assert.deepEqual([status, stdout], [1, ""]);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 0);
    assert.equal(statSync(join(folder, "tokens.jsonl")).uid, SERVICE);
  });

  for (const parentMode of [0o755, 0o700]) {
    const parent = parentMode.toString(8);
    test(`every command works and reports its user, below a folder of root with mode ${parent}`, async (t) => {
      const folder = makeServiceFolder(t, parentMode);
      const file = join(makeFolder(t), "plants.jsonl"); // no other user can read it
      writeFileSync(file, `${FERN}\n`, { mode: 0o600 });
      const tokens = join(makeFolder(t), "tokens.jsonl");
      writeFileSync(tokens, TOKEN_LINE, { mode: 0o600 });
      const commands = [
        ["token", "create", "gardener"],
        ["token", "list"],
        ["token", "export"],
        ["token", "import", tokens],
        ["import", file],
        ["list"],
        ["get", "1"],
        ["export"],
        ["verify"],
        ["backup", join(makeFolder(t), "copy")],
        ["repair", "--yes"],
        ["token", "revoke", "gardener"],
      ];
      const covered = new Set(["serve", "restore", ...commands.map((words) => nameOf(words))]);
      assert.deepEqual(covered, await commandsWithData(), "all that have --data");
      for (const words of commands) {
        const { status, stderr } = await run(folder, ...words);
        assert.equal(status, 0, `${words.join(" ")}: ${stderr}`);
        const messages = messagesOf(stderr);
        assert.equal(messages.length, 1, stderr);
        assert.ok(messages[0]?.includes(`"${folder}"`) && messages[0].includes(`${SERVICE}`));
      }
      for (const name of readdirSync(folder)) {
        const { uid, gid } = lstatSync(join(folder, name));
        assert.deepEqual([name, uid, gid], [name, SERVICE, SERVICE]);
      }
    });
  }

  test("messages show the path as given, also if the owner of the directory cannot use it", async (t) => {
    const folder = makeServiceFolder(t, 0o700);
    const link = join(makeFolder(t), "link");
    symlinkSync(folder, link);
    writeLogFor(folder, REPAIR);
    for (const words of [["import", "/dev/null"], ["list"], ["verify"]]) {
      const { stdout, stderr } = await run(link, ...words);
      assert.ok(stderr.includes(`"${link}`), stderr);
      assert.equal(`${stdout}${stderr}`.includes("/proc/self"), false, stderr);
    }
  });

  test("a backup reads as the owner of the directory and writes as the owner of the target's folder", async (t) => {
    const folder = makeServiceFolder(t, 0o700);
    writeLogFor(folder, []);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 0);
    const [roots, others] = [makeFolder(t), join(makeServiceFolder(t, 0o700), "..", "other")];
    const other = SERVICE + 1;
    mkdirSync(others, { mode: 0o700 });
    chownSync(others, other, other);
    for (const [parent, owner] of [
      [roots, 0],
      [others, other],
    ] as const) {
      const target = join(parent, "copy");
      const { status, stdout, stderr } = await run(folder, "backup", target);
      assert.equal(status, 0, stderr);
      assert.ok(stdout.includes(`"${target}"`), stdout);
      const files = ["", "plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"];
      for (const name of files) {
        const { uid, gid, mode } = statSync(join(target, name));
        assert.deepEqual([name, uid, gid, mode & 0o077], [name, owner, owner, 0]);
      }
      assert.deepEqual(readdirSync(parent), ["copy"]);
      assert.equal((await run(folder, "backup", target)).status, 1, "it exists");
    }
  });

  test("a restore reads as the owner of the backup, and writes as the owner of the directory", async (t) => {
    const [roots, folder] = [makeFolder(t), makeServiceFolder(t, 0o700)];
    writeLogFor(folder, []);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 0);
    const backup = join(roots, "copy");
    assert.equal((await run(folder, "backup", backup)).status, 0);
    for (const data of [makeServiceFolder(t, 0o700), join(makeServiceFolder(t), "new", "data")]) {
      const { status, stdout, stderr } = await run(data, "restore", backup);
      assert.equal(status, 0, stderr);
      assert.ok(stdout.includes(`"${data}"`), stdout);
      for (const name of ["", "plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"]) {
        const { uid, gid, mode } = statSync(join(data, name));
        assert.deepEqual([name, uid, gid, mode & 0o077], [name, SERVICE, SERVICE, 0]);
      }
    }
  });

  test("a numbered backup is written as the owner of its folder, who cannot remove one of root", async (t) => {
    const data = makeServiceFolder(t, 0o700);
    writeLogFor(data, []);
    const folder = makeServiceFolder(t, 0o700);
    const other = SERVICE + 1;
    chownSync(folder, other, other);
    const old = "plants-000001-20260101T000000Z";
    mkdirSync(join(folder, old), { mode: 0o755 });
    writeFileSync(join(folder, old, "plants.jsonl"), `${FERN}\n`);
    const { status, stdout, stderr } = await run(data, "backup", "--into", folder, "--keep", "1");
    assert.equal(status, 0, stderr);
    assert.match(stderr, /\bwarning\b.*\bEACCES\b/);
    const [, name = ""] = /"(.*)"/.exec(stdout) ?? [];
    assert.ok(name.startsWith(join(folder, "plants-000002-")), stdout);
    assert.equal(`${stdout}${stderr}`.includes("/proc/self"), false, stderr);
    for (const each of ["", "plants.jsonl", "plants.jsonl.checkpoint"]) {
      assert.equal(statSync(join(name, each)).uid, other, each);
    }
    const again = await run(data, "backup", "--into", folder, "--keep", "1");
    assert.equal(again.status, 0, again.stderr);
    const whole = readdirSync(folder).filter((each) => /^plants-\d+-\d+T\d+Z$/.test(each));
    assert.equal(whole.length, 1, "what is left of the old one is no backup");
  });

  test("an import reads a data directory as its owner, and writes as the owner of the other", async (t) => {
    const [source, vault] = [makeServiceFolder(t, 0o700), makeVault(t)];
    writeLogFor(source, []);
    const data = makeServiceFolder(t, 0o700);
    chownSync(data, SERVICE + 1, SERVICE + 1);
    const { status, stdout, stderr } = await run(data, "import", source);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /\b1\b.*\b0\b.*\b0\b/);
    assert.equal(statSync(logPath(data)).uid, SERVICE + 1);
    rmSync(logPath(source));
    symlinkSync(join(vault, "shadow"), logPath(source));
    const refused = await run(data, "import", source);
    assert.equal(refused.status, 1, "its owner may not read this");
    assert.equal(refused.stderr.includes(SECRET), false);
  });

  test("in a folder of root, or without a folder, root stays root", async (t) => {
    const folder = makeFolder(t);
    for (const data of [folder, join(folder, "new")]) {
      const { status, stderr } = await run(data, "token", "create", "gardener");
      assert.equal(status, 0);
      assert.doesNotMatch(stderr, /not as root/);
      assert.equal(statSync(join(data, "tokens.jsonl")).uid, 0);
    }
  });

  test("a folder of root that another user can replace is used through its descriptor", async (t) => {
    const parent = makeServiceFolder(t); // in it, that user may rename folders of root
    const folder = join(parent, "roots");
    mkdirSync(folder, { mode: 0o700 });
    for (const words of [["token", "create", "a"], IMPORT, ["verify"]]) {
      const { status, stderr } = await run(folder, ...words);
      assert.deepEqual([status, stderr], [0, ""], words.join(" "));
    }
    for (const name of readdirSync(folder)) assert.equal(lstatSync(join(folder, name)).uid, 0);
    const server = await startServer(t, ["--data", folder, "--log", "off"]);
    const ended = once(server.process, "close");
    const token = (await run(folder, "token", "create", "b")).stdout.trim();
    renameSync(folder, `${folder}-2`);
    mkdirSync(folder);
    let status = 401;
    await until("the token is known", async () => {
      ({ status } = await postPlant(server.url, token, FERN));
      return status !== 401;
    });
    assert.equal(status, 503);
    assert.deepEqual(await ended, [1, null]);
    assert.deepEqual(readdirSync(folder), []);
  });

  test("the service starts after a command of root, also of an older version", async (t) => {
    if (!canRunAsService(t)) return;
    const folder = makeServiceFolder(t);
    assert.equal((await run(folder, ...IMPORT)).status, 0);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 0);
    for (const name of ["lock.7", "tokens-lock.7"]) await leaveSocketOfRoots(join(folder, name));
    for (const words of [IMPORT, ["token", "create", "other"], ["list"]]) {
      const { status, stderr } = await runAsService(folder, ...words);
      assert.deepEqual([status, stderr], [0, ""], words.join(" "));
    }
    assert.equal(readdirSync(folder).includes("lock.7"), false, "it was swept");
  });
});

describe("root that cannot switch to the owner of the folder", {
  ...NEEDS_ROOT,
  ...TIMEOUT,
}, () => {
  const REFUSALS: Readonly<Record<string, readonly string[]>> = {
    "without the right to change users": ["setpriv", "--bounding-set=-setuid"],
    "of a user namespace that does not know the owner": ["unshare", "--user", "--map-root-user"],
    "with io_uring": ["env", "UV_USE_IO_URING=1"],
  };
  for (const [which, wrapper] of Object.entries(REFUSALS)) {
    test(`root ${which} exits with 2, and has touched nothing`, async (t) => {
      const [program = "", ...args] = wrapper;
      if (!canRun(t, program, ...args, "true")) return;
      const change = `try { process.setgroups([]); process.setuid(${SERVICE}) } catch { process.exit(1) }`;
      const probe = [...args, process.execPath, "-e", change];
      if (spawnSync(program, probe).status === 0) return t.skip("Node can switch there");
      const folder = makeServiceFolder(t);
      chmodSync(folder, 0o755);
      const before = describeFiles(join(folder, ".."));
      for (const words of [
        ["token", "create", "gardener"],
        ["serve", "--port=0"],
        ["backup", join(makeFolder(t), "copy")],
      ]) {
        const end = await runToEnd(
          [...wrapper, process.execPath, PROGRAM, ...words, "--data", folder],
          { timeout: 20_000 },
        );
        assert.deepEqual([end.status, end.stdout], [2, ""], end.stderr);
        assert.equal(messagesOf(end.stderr).length, 1, end.stderr);
        assert.ok(end.stderr.includes(folder), end.stderr);
        assert.deepEqual(describeFiles(join(folder, "..")), before);
      }
    });
  }
});

describe("serve as root in a folder of another user", { ...NEEDS_ROOT, ...TIMEOUT }, () => {
  test("binds a port below 1024, and runs as the owner when it is ready", async (t) => {
    const port = await freePortOfRoots();
    if (port === undefined) return t.skip("every user may bind every port here");
    const folder = makeServiceFolder(t, 0o700);
    const token = (await run(folder, "token", "create", "gardener")).stdout.trim();
    const server = await startServer(t, ["--data", folder, "--port", String(port)]);
    assert.equal(server.port, port);
    const pid = server.process.pid ?? 0;
    const ids = Array(4).fill(SERVICE).join("\t");
    assert.deepEqual([statusField(pid, "Uid"), statusField(pid, "Gid")], [ids, ids]);
    assert.match(readFileSync(`/proc/${pid}/status`, "utf8"), /^Groups:[ \t]*$/m);
    assert.equal(Number.parseInt(statusField(pid, "CapEff"), 16), 0);
    assert.equal((await postPlant(server.url, token, FERN)).status, 200);
    const second = await runToEnd(
      [process.execPath, PROGRAM, "serve", "--data", folder, "--port", String(port)],
      { timeout: 20_000 },
    );
    assert.equal(second.status, 1);
    assert.ok(second.stderr.includes(String(pid)), `it names the first: ${second.stderr}`);
    assert.equal((await server.stop()).status, 0);
    assert.equal(readLog(folder), `${FERN}\n`);
    assert.equal(statSync(logPath(folder)).uid, SERVICE);
  });

  test("names a port that another program uses", async (t) => {
    const other = net.createServer().listen(0, "127.0.0.1");
    t.after(() => other.close());
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const end = await run(makeServiceFolder(t), "serve", "--port", String(port));
    assert.equal(end.status, 1);
    assert.ok(end.stderr.includes(`127.0.0.1:${port}`), end.stderr);
  });

  test("reads a key of root, and warns that SIGHUP cannot read it again", {
    ...NEEDS_OPENSSL,
  }, async (t) => {
    const { cert, certPath, keyPath } = makeCertificate(t, "first"); // in a folder of root, 0700
    const folder = makeServiceFolder(t);
    const token = (await run(folder, "token", "create", "gardener")).stdout.trim();
    const server = await startServer(t, [
      ...["--data", folder, "--tls-cert", certPath, "--tls-key", keyPath],
    ]);
    assert.match(server.url, /^https:/);
    const warnings = () => messagesOf(server.stderr());
    server.process.kill("SIGHUP");
    await until("the reload is reported", () => warnings().length > 0);
    for (const warning of warnings()) assert.ok(warning.includes(certPath), warning);
    const client = await Client.connectSecurely(server.port, cert);
    await client.send(encodeRequest({ token }, { body: FERN }));
    assert.equal((await client.next()).status, 200);
    client.destroy();
    assert.equal((await server.stop()).status, 0);
  });

  test("the documented command for tokens works beside a service with DynamicUser", async (t) => {
    if (!canRunAsService(t)) return;
    const [block = ""] = codeBlocks(
      "docs/operating.md",
      "On a virtual machine, with systemd",
      "sh",
    );
    const words = /plant-store (token create .*) --data \/var\/lib\/plant-store$/m.exec(block)?.[1];
    assert.ok(words !== undefined, "it is there");
    // As systemd does: /var/lib/plant-store is a link to private/plant-store, and root owns private (0700).
    const lib = makeFolder(t);
    chmodSync(lib, 0o755);
    mkdirSync(join(lib, "private"), { mode: 0o700 });
    const real = join(lib, "private", "plant-store");
    mkdirSync(real, { mode: 0o700 });
    chownSync(real, SERVICE, SERVICE);
    const state = join(lib, "plant-store");
    symlinkSync(join("private", "plant-store"), state);
    // In its namespace the service has a path to its folder: here that is a bind mount.
    const data = bindFolder(t, real);
    if (data === undefined) return;
    const service = await startServer(t, ["--data", data], { wrapper: AS_SERVICE });
    const made = await run(state, ...words.split(" "));
    assert.equal(made.status, 0, made.stderr);
    const token = made.stdout.trim();
    await until("the token is accepted", async () => {
      return (await postPlant(service.url, token, FERN)).status === 200;
    });
    assert.equal((await run(state, "list")).stdout, `${FERN}\n`);
    assert.equal((await run(state, "verify")).status, 0);
    assert.equal((await run(state, ...IMPORT)).status, 1, "it is in use");
    assert.equal((await service.stop()).status, 0);
    assert.equal((await run(state, ...IMPORT)).status, 0);
    const again = await startServer(t, ["--data", data], { wrapper: AS_SERVICE });
    assert.equal((await postPlant(again.url, token, FERN)).status, 200);
    assert.equal((await again.stop()).status, 0);
  });
});

/** Another path to a folder, until the test ends. */
function bindFolder(t: TestContext, folder: string): string | undefined {
  const path = mkdtempSync(join(tmpdir(), "plant-store-bind-"));
  t.after(() => {
    spawnSync("umount", ["-l", path]);
    rmdirSync(path);
  });
  return canRun(t, "mount", "--bind", folder, path) ? path : undefined;
}

/** A free port below 1,024, which only root may bind. */
async function freePortOfRoots(): Promise<number | undefined> {
  if (readFileSync("/proc/sys/net/ipv4/ip_unprivileged_port_start", "utf8").trim() !== "1024") {
    return undefined;
  }
  for (let tries = 0; tries < 100; tries++) {
    // Two runs of this suite must not meet, and fetch refuses many ports below and above these.
    const port = randomInt(650, 980);
    const server = net.createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
  return undefined;
}

/** Leaves a dead socket as older versions did: root's, and open to everybody. */
async function leaveSocketOfRoots(path: string): Promise<void> {
  const server = net.createServer();
  const dying = `${path}-dying`;
  await new Promise<void>((resolve) => {
    server.listen({ path: dying, readableAll: true, writableAll: true }, resolve);
  });
  linkSync(dying, path);
  await new Promise((resolve) => server.close(resolve));
  assert.equal(lstatSync(path).uid, 0);
}

/** Checks every file except the trap itself. */
function assertHoldsNothingOfRoots(folder: string, trap: string): void {
  for (const name of readdirSync(folder)) {
    const stat = lstatSync(join(folder, name));
    if (stat.ino === lstatSync(join(folder, trap), { throwIfNoEntry: false })?.ino) continue;
    if (stat.isSymbolicLink() || stat.nlink > 1) continue; // the trap, renamed
    assert.equal(stat.uid, SERVICE, name);
    if (stat.isFile()) {
      assert.equal(readFileSync(join(folder, name), "utf8").includes(SECRET), false, name);
    }
  }
}

function nameOf([first = "", second = ""]: readonly string[]): string {
  return first === "token" ? `${first} ${second}` : first;
}

/** The commands that have --data. They are read from the help, so a new command is not forgotten. */
async function commandsWithData(): Promise<Set<string>> {
  const { stdout } = await runCli(["--help"]);
  const names = [...stdout.matchAll(/^ {2}([a-z]+(?: [a-z-]+)?)(?: \[?[A-Z]+\]?)? {2,}/gm)];
  const found = new Set<string>();
  for (const [, name = ""] of names) {
    const help = await runCli([...name.split(" "), "--help"]);
    if (/^ +--data /m.test(help.stdout)) found.add(name);
  }
  return found;
}
