/**
 * Commands that root runs in a data directory of another user, who has put traps there. The files
 * of root must be the same afterwards.
 */
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import net from "node:net";
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
};

const TOKEN_LINE = `{"event":"created","name":"app","hash":"${"0".repeat(64)}","scopes":["write"],"createdAt":"2026-01-01T00:00:00.000Z"}\n`;

const IMPORT = ["import", "/dev/null"];
const REPAIR = ["repair", "--yes"];

/** Which commands open which files. */
const PLACES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "tokens.jsonl": [
    ["token", "create", "gardener"],
    ["token", "list"],
  ],
  "plants.jsonl": [IMPORT, ["export"], REPAIR],
  "plants.jsonl.checkpoint": [IMPORT, REPAIR],
  "plants.jsonl.checkpoint.new": [IMPORT],
  "plants.jsonl.quarantine-1": [IMPORT],
  "plants.jsonl.repaired": [REPAIR],
  "plants.jsonl.before-repair-1": [REPAIR],
  "lock.1": [IMPORT],
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
      const target = join(makeServiceFolder(t), "copy");
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
    const { status, stdout } = await run(folder, "export");
    assert.deepEqual([status, stdout], [1, ""]);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 0);
    assert.equal(statSync(join(folder, "tokens.jsonl")).uid, SERVICE);
  });

  test("every command works and reports its user", async (t) => {
    const folder = makeServiceFolder(t);
    const file = join(makeFolder(t), "plants.jsonl"); // no other user can read it
    writeFileSync(file, `${FERN}\n`, { mode: 0o600 });
    const tokens = join(makeFolder(t), "tokens.jsonl");
    writeFileSync(tokens, TOKEN_LINE, { mode: 0o600 });
    const backup = join(makeServiceFolder(t), "copy");
    const commands = [
      ["token", "create", "gardener"],
      ["token", "list"],
      ["token", "import", tokens],
      ["import", file],
      ["get", "1"],
      ["export"],
      ["verify"],
      ["backup", backup],
      ["backup", "--into", join(backup, "..", "numbered")],
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
    for (const each of [folder, backup]) {
      for (const name of ["", ...readdirSync(each)]) {
        const { uid, gid } = lstatSync(join(each, name));
        assert.deepEqual([name, uid, gid], [name, SERVICE, SERVICE]);
      }
    }
  });

  test("every command is refused, and touches nothing, if the owner has no path to the folder", async (t) => {
    const folder = makeServiceFolder(t, 0o700); // of the folder above, which is root's
    writeLogFor(folder, []);
    const link = join(makeFolder(t), "link");
    symlinkSync(folder, link);
    const before = describeFiles(folder);
    for (const words of [
      ["serve", "--port=0"],
      ["token", "create", "gardener"],
      IMPORT,
      ["export"],
      ["verify"],
      ["backup", join(makeServiceFolder(t), "copy")],
    ]) {
      for (const data of [folder, link]) {
        const { status, stdout, stderr } = await run(data, ...words);
        assert.deepEqual([status, stdout], [2, ""], stderr);
        const [message = "", ...more] = messagesOf(stderr);
        assert.deepEqual(more, []);
        assert.ok(message.includes(`"${data}"`) && message.includes("EACCES"), message);
        assert.deepEqual(describeFiles(folder), before);
      }
    }
  });

  test("a backup is made by the owner, and refused in a folder of root", async (t) => {
    const folder = makeServiceFolder(t);
    writeLogFor(folder, []);
    const vault = makeVault(t);
    const before = describeFiles(vault);
    for (const words of [
      ["backup", join(vault, "copy")],
      ["backup", "--into", join(vault, "backups")],
    ]) {
      const { status, stdout, stderr } = await run(folder, ...words);
      assert.deepEqual([status, stdout], [1, ""], stderr);
      assert.ok(stderr.includes(vault) && stderr.includes("EACCES"), stderr);
      assert.deepEqual(describeFiles(vault), before);
    }
  });

  test("a restore and an import open a folder of root before, and write as the owner of the directory", async (t) => {
    const source = join(makeFolder(t), "copy"); // no other user can read it
    mkdirSync(source, { mode: 0o700 });
    assert.equal((await run(source, "token", "create", "gardener")).status, 0);
    writeLog(source, `${FERN}\n`);
    for (const data of [makeServiceFolder(t), join(makeServiceFolder(t), "new", "data")]) {
      const { status, stdout, stderr } = await run(data, "restore", source);
      assert.equal(status, 0, stderr);
      assert.ok(stdout.includes(`"${data}"`), stdout);
      for (const name of ["", "plants.jsonl", "plants.jsonl.checkpoint", "tokens.jsonl"]) {
        const { uid, gid, mode } = statSync(join(data, name));
        assert.deepEqual([name, uid, gid, mode & 0o077], [name, SERVICE, SERVICE, 0]);
      }
    }
    const data = makeServiceFolder(t);
    const { status, stdout, stderr } = await run(data, "import", source);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /\b1\b.*\b0\b.*\b0\b/);
    assert.equal(statSync(logPath(data)).uid, SERVICE);
  });

  test("a restore and an import read a folder of another user as the owner of the directory", async (t) => {
    const source = makeServiceFolder(t);
    chownSync(source, SERVICE + 1, SERVICE + 1);
    chmodSync(source, 0o755);
    writeLog(source, `${FERN}\n`);
    chmodSync(logPath(source), 0o644);
    for (const command of ["restore", "import"]) {
      const data = makeServiceFolder(t);
      const { status, stderr } = await run(data, command, source);
      assert.equal(status, 0, stderr);
      assert.equal(readLog(data), `${FERN}\n`);
    }
    const vault = makeVault(t);
    for (const name of ["plants.jsonl", "tokens.jsonl"]) {
      rmSync(join(source, name), { force: true });
      symlinkSync(join(vault, "shadow"), join(source, name));
      for (const command of name === "plants.jsonl" ? ["restore", "import"] : ["restore"]) {
        const data = makeServiceFolder(t);
        const { status, stdout, stderr } = await run(data, command, source);
        assert.deepEqual([status, stdout], [1, ""], stderr);
        assert.equal(stderr.includes(SECRET), false);
        const made = readdirSync(data).filter((each) => !each.startsWith("lock."));
        assert.deepEqual(made, []);
      }
      rmSync(join(source, name));
      writeLog(source, `${FERN}\n`);
      chmodSync(logPath(source), 0o644);
    }
  });

  test("the service starts after a command of root, also of an older version", async (t) => {
    if (!canRunAsService(t)) return;
    const folder = makeServiceFolder(t);
    assert.equal((await run(folder, ...IMPORT)).status, 0);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 0);
    for (const name of ["lock.7", "tokens-lock.7"]) await leaveSocketOfRoots(join(folder, name));
    for (const words of [IMPORT, ["token", "create", "other"], ["export"]]) {
      const { status, stderr } = await runAsService(folder, ...words);
      assert.deepEqual([status, stderr], [0, ""], words.join(" "));
    }
    assert.equal(readdirSync(folder).includes("lock.7"), false, "it was swept");
  });
});

describe("as root in a folder of root", SETTINGS, () => {
  for (const mode of [0o777, 0o1777]) {
    test(`a folder of root's with mode ${mode.toString(8)} is served, with a warning, and so is one below it`, async (t) => {
      const folder = makeFolder(t);
      chmodSync(folder, mode);
      const below = join(folder, "new", "data");
      for (const [data, warnings] of [
        [folder, 1],
        [below, mode === 0o777 ? 1 : 0],
      ] as const) {
        const { status, stderr } = await run(data, "token", "create", "gardener");
        assert.equal(status, 0, stderr);
        assert.equal(stderr.split("warning: ").length - 1, warnings, stderr);
        const server = await startServer(t, ["--data", data]);
        assert.equal((await server.stop()).status, 0);
      }
    });
  }

  test("root stays root below a sticky folder", async (t) => {
    const folder = makeFolder(t);
    chmodSync(folder, 0o1777);
    const data = join(folder, "new");
    const { status, stderr } = await run(data, "token", "create", "gardener");
    assert.equal(status, 0);
    assert.doesNotMatch(stderr, /not as root/);
    assert.equal(statSync(join(data, "tokens.jsonl")).uid, 0);
    const backup = join(folder, "copy");
    await run(data, ...IMPORT);
    assert.equal((await run(data, "backup", backup)).status, 0);
    assert.equal(statSync(backup).uid, 0);
  });

  test("a link that another user has left in a folder of root's is not followed", async (t) => {
    const folder = makeFolder(t);
    const aim = join(makeFolder(t), "aim");
    symlinkSync(aim, join(folder, "tokens.jsonl"));
    lchownSync(join(folder, "tokens.jsonl"), SERVICE, SERVICE);
    assert.equal((await run(folder, "token", "create", "gardener")).status, 2);
    assert.equal(existsSync(aim), false);
  });

  test("a folder to which a link of another user leads is refused", async (t) => {
    const real = makeFolder(t);
    const theirs = makeServiceFolder(t);
    symlinkSync(real, join(theirs, "current"));
    const link = join(makeFolder(t), "data");
    symlinkSync(join(theirs, "current"), link);
    assert.equal((await run(link, "token", "create", "gardener")).status, 2);
    assert.deepEqual(readdirSync(real), []);
  });

  test("a source that another user can change is not restored by root", async (t) => {
    const secret = join(makeFolder(t), "secret");
    writeFileSync(secret, "secret", { mode: 0o600 });
    const source = makeServiceFolder(t);
    writeLog(source, `${FERN}\n`);
    symlinkSync(secret, join(source, "tokens.jsonl"));
    const data = join(makeFolder(t), "data");
    assert.equal((await run(data, "restore", source)).status, 2);
    assert.equal(existsSync(data), false);
  });

  /** Each returns a path of a folder that another user can change or replace, and what to name as the cause. */
  const OPEN: Readonly<
    Record<string, (t: TestContext) => readonly [folder: string, part: string]>
  > = {
    "below a folder of another user": (t) => {
      const parent = makeServiceFolder(t);
      mkdirSync(join(parent, "roots"), { mode: 0o700 });
      return [join(parent, "roots"), parent];
    },
    "behind a link of another user": (t) => {
      const link = join(makeServiceFolder(t), "link");
      symlinkSync(makeFolder(t), link);
      return [link, join(link, "..")];
    },
    "behind a link to a folder of another user": (t) => {
      const parent = makeServiceFolder(t);
      mkdirSync(join(parent, "roots"));
      const link = join(makeFolder(t), "link");
      symlinkSync(join(parent, "roots"), link);
      return [link, parent];
    },
  };

  for (const [which, make] of Object.entries(OPEN)) {
    test(`a folder ${which} is refused, also for a backup, and no link in it is followed`, async (t) => {
      const [folder, part] = make(t);
      const vault = makeVault(t);
      for (const name of ["tokens.jsonl", "plants.jsonl"]) {
        symlinkSync(join(vault, "shadow"), join(folder, name));
      }
      const data = makeFolder(t);
      assert.equal((await run(data, ...IMPORT)).status, 0);
      const before = describeFiles(vault);
      for (const end of [
        await run(folder, "token", "create", "gardener"),
        await run(folder, "serve", "--port=0"),
        await run(join(folder, "new"), ...IMPORT),
        await run(data, "backup", join(folder, "copy")),
        await run(data, "backup", "--into", join(folder, "backups")),
      ]) {
        assert.deepEqual([end.status, end.stdout], [2, ""], end.stderr);
        assert.equal(messagesOf(end.stderr).length, 1, end.stderr);
        assert.ok(end.stderr.includes(JSON.stringify(part).slice(1, -1)), end.stderr);
      }
      assert.deepEqual(describeFiles(vault), before);
      assert.deepEqual(readdirSync(folder).sort(), ["plants.jsonl", "tokens.jsonl"]);
    });
  }

  test("a backup into a folder of another user is refused", async (t) => {
    const [data, folder] = [makeFolder(t), makeServiceFolder(t)];
    assert.equal((await run(data, ...IMPORT)).status, 0);
    const end = await run(data, "backup", join(folder, "copy"));
    assert.deepEqual([end.status, end.stdout, readdirSync(folder)], [2, "", []]);
    assert.ok(end.stderr.includes(`"${folder}"`), end.stderr);
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
  test("runs as the owner, with none of the rights of root", async (t) => {
    const folder = makeServiceFolder(t);
    const token = (await run(folder, "token", "create", "gardener")).stdout.trim();
    const wrapper = ["setpriv", "--groups=0,7"];
    if (!canRun(t, "setpriv", "--groups=0,7", "true")) return;
    const server = await startServer(t, ["--data", folder], { wrapper });
    const pid = server.process.pid ?? 0;
    const ids = Array(4).fill(SERVICE).join("\t");
    assert.deepEqual([statusField(pid, "Uid"), statusField(pid, "Gid")], [ids, ids]);
    assert.equal(groupsOf(pid), "");
    assert.equal(Number.parseInt(statusField(pid, "CapEff"), 16), 0);
    assert.equal((await postPlant(server.url, token, FERN)).status, 200);
    const second = await run(folder, "serve", "--port", String(server.port));
    assert.equal(second.status, 1);
    assert.ok(second.stderr.includes(String(pid)), `it names the first: ${second.stderr}`);
    assert.equal((await server.stop()).status, 0);
    assert.equal(readLog(folder), `${FERN}\n`);
    assert.equal(statSync(logPath(folder)).uid, SERVICE);
  });

  test("takes the groups of an owner who has a name, and not the group of the folder", async (t) => {
    if (!canRun(t, "id", "nobody")) return;
    const [uid, ...groups] = ["-u", "-G"].flatMap((flag) =>
      execFileSync("id", [flag, "nobody"], { encoding: "utf8" }).trim().split(" "),
    );
    const folder = makeServiceFolder(t);
    chownSync(folder, Number(uid), 0);
    const server = await startServer(t, ["--data", folder]);
    const pid = server.process.pid ?? 0;
    const primary = Array(4).fill(groups[0]).join("\t");
    assert.deepEqual([statusField(pid, "Gid"), groupsOf(pid)], [primary, groups.join(" ")]);
    assert.equal((await server.stop()).status, 0);
  });

  test("reads the certificate as the owner: its key is refused if only root can read it", {
    ...NEEDS_OPENSSL,
  }, async (t) => {
    const { cert, certPath, keyPath } = makeCertificate(t, "first"); // in a folder of root, 0700
    const folder = makeServiceFolder(t);
    const args = ["--tls-cert", certPath, "--tls-key", keyPath];
    const refused = await run(folder, "serve", "--port=0", ...args);
    assert.deepEqual([refused.status, refused.stdout], [1, ""], refused.stderr);
    assert.ok(refused.stderr.includes(certPath), refused.stderr);
    chmodSync(join(certPath, ".."), 0o711);
    chmodSync(keyPath, 0o640);
    chownSync(keyPath, 0, 0);
    const keyRefused = await run(folder, "serve", "--port=0", ...args);
    assert.deepEqual([keyRefused.status, keyRefused.stdout], [1, ""], keyRefused.stderr);
    assert.ok(keyRefused.stderr.includes(keyPath), keyRefused.stderr);
    chownSync(keyPath, 0, SERVICE);
    const token = (await run(folder, "token", "create", "gardener")).stdout.trim();
    const server = await startServer(t, ["--data", folder, ...args]);
    assert.match(server.url, /^https:/);
    const client = await Client.connectSecurely(server.port, cert);
    await client.send(encodeRequest({ token }, { body: FERN }));
    assert.equal((await client.next()).status, 200);
    client.destroy();
    assert.equal((await server.stop()).status, 0);
  });

  test("the documented command for tokens works beside the service", async (t) => {
    if (!canRunAsService(t)) return;
    const [block = ""] = codeBlocks("docs/systemd.md", "Install", "sh");
    const words = /plant-store (token create .*) --data \/var\/lib\/plant-store$/m.exec(block)?.[1];
    assert.ok(words !== undefined, "it is there");
    const data = makeServiceFolder(t);
    const service = await startServer(t, ["--data", data], { wrapper: AS_SERVICE });
    const made = await run(data, ...words.split(" "));
    assert.equal(made.status, 0, made.stderr);
    const token = made.stdout.trim();
    await until("the token is accepted", async () => {
      return (await postPlant(service.url, token, FERN)).status === 200;
    });
    assert.equal((await run(data, "export")).stdout, `${FERN}\n`);
    assert.equal((await run(data, ...IMPORT)).status, 1, "it is in use");
    assert.equal((await service.stop()).status, 0);
    assert.equal((await run(data, ...IMPORT)).status, 0);
    const again = await startServer(t, ["--data", data], { wrapper: AS_SERVICE });
    assert.equal((await postPlant(again.url, token, FERN)).status, 200);
    assert.equal((await again.stop()).status, 0);
  });
});

/** The supplementary groups of a process. */
function groupsOf(pid: number): string {
  return /^Groups:[ \t]*(.*?) *$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "?";
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
