import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { PlantStore } from "../../src/index.ts";
import { isSound, verifyLog } from "../../src/tools.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { collect, logPath, openStore, readLog, writeLog } from "../support/stores.ts";
import { NEEDS_TERMINAL, terminalArgs } from "../support/terminal.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 2 };

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';

/** A folder with this log, which `edited` replaces after a clean stop. */
async function prepare(t: TestContext, log: string, edited = log): Promise<string> {
  const folder = makeFolder(t);
  writeLog(folder, log);
  await (await PlantStore.open(folder)).close();
  writeLog(folder, edited);
  return folder;
}

describe("verify", AT_ONCE, () => {
  test("of a sound log prints its report, names a repeated line, and ends with 0", async (t) => {
    const folder = await prepare(t, A + B + A);
    const { status, stdout, stderr } = await runCli(["verify", "--data", folder]);
    assert.equal(status, 0);
    assert.match(stderr, /^[^\n]*\b3\b.*\b50\b[^\n]*\n$/);
    const rows = new Map(
      stdout.split("\n").map((row) => row.split(/ {2,}/) as [string, string | undefined]),
    );
    assert.deepEqual(
      ["records", "bytes", "duplicates", "damaged"].map((name) => rows.get(name)),
      ["3", "70", "1", "0"],
    );
  });

  test("ends its report with a verdict, which is another one if the log is damaged", async (t) => {
    const verdictOf = async (log: string) => {
      const { stdout } = await runCli(["verify", "--data", await prepare(t, A, log)]);
      return stdout.trimEnd().split("\n").at(-1) ?? "";
    };
    const [sound, damaged] = [await verdictOf(A), await verdictOf(`${A}x\n`)];
    for (const verdict of [sound, damaged]) assert.match(verdict, /^[A-Z][^\n]* start [^\n]*\.$/);
    assert.notEqual(sound, damaged);
  });

  test("--json of a damaged log prints one object, names each fault, and ends with 3", async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, `${A}x\n${B}{"id":`);
    const { status, stdout, stderr } = await runCli(["verify", "--json", "--data", folder]);
    assert.equal(status, 3);
    assert.deepEqual(JSON.parse(stdout), {
      records: 2,
      bytes: 52,
      duplicates: 0,
      damaged: 1,
      mendable: 0,
      tornBytes: 6,
      checksum: "none",
    });
    assert.equal(stdout.split("\n").length, 2);
    assert.match(stderr, /\b2\b.*\b20\b/);
    assert.equal(stderr.split("\n").length, 2);
  });

  test("of a log that differs from its checkpoint ends with 3", async (t) => {
    const folder = await prepare(t, A, A.replace('"a"', '"b"'));
    const { status, stdout } = await runCli(["verify", "--json", "--data", folder]);
    assert.equal(status, 3);
    assert.equal(JSON.parse(stdout).checksum, "differs");
  });

  test("of a log that was copied before its checkpoint reports that it is shorter, as serve and backup do", async (t) => {
    const folder = await prepare(t, A + B, A);
    const target = join(makeFolder(t), "copy");
    const COMMANDS = [["verify"], ["serve", "--port", "0"], ["backup", target]];
    for (const words of COMMANDS) {
      // Not concurrent: a reader would find the folder in use during the start of a server.
      const { status, stdout, stderr } = await runCli([...words, "--data", folder]);
      assert.equal(status, 3);
      assert.match(stdout + stderr, /\bholds 20 bytes\b.*\b50\b.*\bcut\b.*\bcopied\b/);
    }
  });

  test("without a log ends with 1, a message and no result", async (t) => {
    const { status, stdout, stderr } = await runCli(["verify", "--data", makeFolder(t)]);
    assert.deepEqual([status, stdout], [1, ""]);
    assert.notEqual(stderr, "");
  });
});

describe("serve", AT_ONCE, () => {
  const REFUSED: readonly [says: string, log: string, edited: string][] = [
    ["is damaged", A, `${A}x\n`],
    ["was edited", A + B, A],
  ];
  for (const [says, log, edited] of REFUSED) {
    test(`of a log that ${says} ends with 3, names it, and changes nothing`, async (t) => {
      const folder = await prepare(t, log, edited);
      const before = snapshot(folder);
      const { status, stdout, stderr } = await runCli(["serve", "--port", "0", "--data", folder]);
      assert.deepEqual([status, stdout], [3, ""]);
      assert.ok(stderr.includes(logPath(folder)));
      assert.match(stderr, /plant-store repair/, "the advice is there");
      assert.deepEqual(snapshot(folder), before);
    });
  }
});

describe("repair", AT_ONCE, () => {
  test("that cannot ask needs --yes: status 2, and nothing is changed", async (t) => {
    const folder = await prepare(t, A, `${A}x\n`);
    const before = snapshot(folder);
    const { status, stdout, stderr } = await runCli(["repair", "--data", folder], { stdin: "y\n" });
    assert.deepEqual([status, stdout], [2, ""]);
    assert.ok(stderr.includes("--yes"));
    assert.deepEqual(snapshot(folder), before);
  });

  test("--yes writes a new log, prints what it left out, and ends with 0", async (t) => {
    const folder = await prepare(t, A, `${A}x\u001b[2J\n${B}`);
    const { status, stdout, stderr } = await runCli(["repair", "--yes", "--data", folder]);
    assert.equal(status, 0);
    assert.ok(stdout.includes("plants.jsonl.before-repair-1"));
    assert.match(stderr, /\b2\b.*\b20\b/);
    assert.equal(stderr.includes("\u001b"), false, "no escape sequence reaches the terminal");
    assert.equal(readLog(folder), A + B);
    assert.equal(isSound(await verifyLog(folder)), true);
  });

  test("--yes accepts an edit; if there is nothing to do no --yes is needed", async (t) => {
    const folder = await prepare(t, A + B, A);
    assert.equal((await runCli(["repair", "--yes", "--data", folder])).status, 0);
    assert.equal((await runCli(["repair", "--data", folder])).status, 0);
    assert.equal(readLog(folder), A);
    await openStore(t, folder);
  });

  const ANSWERS: readonly [answer: string, status: number, isDone: boolean][] = [
    ["n\r", 3, false],
    ["\r", 3, false],
    ["\u0004", 3, false], // Ctrl-D
    ["y\r", 0, true],
  ];
  for (const [answer, status, isDone] of ANSWERS) {
    const keys = JSON.stringify(answer);
    test(
      `at a terminal asks, and the answer ${keys} ${isDone ? "continues" : "ends it"}`,
      NEEDS_TERMINAL,
      async (t) => {
        const folder = await prepare(t, A, `${A}x\n${B}`);
        const before = snapshot(folder);
        assert.equal(await runAtTerminal(t, ["repair", "--data", folder], answer), status);
        if (isDone) assert.equal(readLog(folder), A + B);
        else assert.deepEqual(snapshot(folder), before);
      },
    );
  }
});

/** Runs a command at a terminal of its own, answers its question, and resolves with its status. */
async function runAtTerminal(
  t: TestContext,
  args: readonly string[],
  answer: string,
): Promise<number | null> {
  const child = spawn("script", terminalArgs(args));
  t.after(() => child.kill("SIGKILL"));
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const wasAsked = shown.includes("?");
    shown += text;
    if (!wasAsked && shown.includes("?")) child.stdin.write(answer);
  });
  const [status] = await once(child, "exit");
  return status;
}

describe("backup", AT_ONCE, () => {
  test("makes a folder that verify finds sound, and refuses to overwrite it", async (t) => {
    const folder = await prepare(t, A + B);
    const target = join(makeFolder(t), "copy");
    const store = await openStore(t, folder); // this process has it open
    const first = await runCli(["backup", target, "--data", folder]);
    assert.deepEqual([first.status, first.stderr], [0, ""]);
    assert.match(first.stdout, /\b2\b.*\b50\b/);
    assert.equal((await runCli(["verify", "--data", target])).status, 0);
    const before = snapshot(target);
    const second = await runCli(["backup", target, "--data", folder]);
    assert.deepEqual([second.status, second.stdout], [1, ""]);
    assert.ok(second.stderr.includes(target));
    assert.deepEqual(snapshot(target), before);
    await store.close();
  });

  test("--into adds a numbered backup to a folder, and names what it removed", async (t) => {
    const data = await prepare(t, A + B);
    const folder = makeFolder(t);
    const old = "plants-000001-20260101T000000Z";
    mkdirSync(join(folder, old));
    const { status, stdout, stderr } = await runCli([
      ...["backup", "--into", folder, "--keep", "1", "--data", data],
    ]);
    assert.deepEqual([status, stderr], [0, ""]);
    const [, place = ""] = /"(.*)"/.exec(stdout) ?? [];
    assert.match(stdout, /^[^\n]*\b2\b.*\b50\b[^\n]*\n$/);
    assert.ok(stdout.includes(old), stdout);
    assert.match(place.slice(folder.length), /^\/plants-000002-\d{8}T\d{6}Z$/);
    assert.equal((await runCli(["verify", "--data", place])).status, 0);
    assert.equal(existsSync(join(folder, old)), false);
  });

  test("--into of a damaged log ends with 3 and removes nothing", async (t) => {
    const data = await prepare(t, A, `${A}x\n`);
    const folder = makeFolder(t);
    const old = ["plants-000001-20260101T000000Z", "plants-000002-20260101T000000Z"];
    for (const name of old) mkdirSync(join(folder, name));
    const { status, stdout } = await runCli([
      ...["backup", "--into", folder, "--keep", "1", "--data", data],
    ]);
    assert.deepEqual([status, stdout], [3, ""]);
    assert.deepEqual(
      readdirSync(folder).filter((name) => !name.startsWith("lock.")),
      old,
    );
  });

  const USAGES: readonly (readonly string[])[] = [
    [],
    ["copy", "--into", "backups"],
    ["copy", "--keep", "3"],
    ["copy", "--keep", "14"],
    ["--keep", "3"],
    ["--into", "backups", "--keep", "0"],
    ["--into", "backups", "--keep", "10001"],
    ["--into", ""],
    ["one", "two"],
  ];
  for (const words of USAGES) {
    test(`${["backup", ...words].join(" ")} is wrong usage, and makes nothing`, async (t) => {
      const data = await prepare(t, A);
      const cwd = makeFolder(t);
      const { status, stdout, stderr } = await runCli(["backup", ...words, "--data", data], {
        cwd,
      });
      assert.deepEqual([status, stdout], [2, ""]);
      assert.notEqual(stderr, "");
      assert.deepEqual(readdirSync(cwd), []);
    });
  }

  test("--into a data directory or a backup is wrong usage, also by another name and beside a server", async (t) => {
    const [data, other] = [await prepare(t, A), await prepare(t, B)];
    const link = join(makeFolder(t), "link");
    symlinkSync(data, link);
    const store = await openStore(t, data); // this process has it open
    for (const into of [data, link, other]) {
      const before = snapshot(into);
      const { status, stdout, stderr } = await runCli(["backup", "--into", into, "--data", data]);
      assert.deepEqual([status, stdout], [2, ""]);
      assert.ok(stderr.includes(into), stderr);
      assert.deepEqual(snapshot(into), before);
    }
    await store.close();
  });

  test("--into what is no folder ends with 1, in words", async (t) => {
    const data = await prepare(t, A);
    const file = join(makeFolder(t), "file");
    writeFileSync(file, "mine");
    for (const into of [file, "/proc/x"]) {
      const { status, stdout, stderr } = await runCli(["backup", "--into", into, "--data", data]);
      assert.deepEqual([status, stdout], [1, ""]);
      assert.ok(stderr.includes(into), stderr);
      assert.doesNotMatch(stderr, /data directory|, (open|mkdir|scandir)/);
    }
  });

  test("of a damaged log ends with 3 and leaves no files", async (t) => {
    const folder = await prepare(t, A, `${A}x\n`);
    const target = join(makeFolder(t), "copy");
    const { status, stdout } = await runCli(["backup", target, "--data", folder]);
    assert.deepEqual([status, stdout], [3, ""]);
    assert.equal(existsSync(target), false);
  });
});

describe("restore", AT_ONCE, () => {
  test("puts a backup into a directory that is missing, and refuses one that is not empty", async (t) => {
    const source = await prepare(t, A + B);
    const folder = join(makeFolder(t), "data");
    const words = ["restore", source, "--data", folder];
    const first = await runCli(words);
    assert.deepEqual([first.status, first.stderr], [0, ""]);
    assert.match(first.stdout, /\b2\b.*\b50\b/);
    assert.equal(readLog(folder), A + B);
    const second = await runCli(words);
    assert.deepEqual([second.status, second.stdout], [1, ""]);
    assert.ok(second.stderr.includes('"plants.jsonl'), second.stderr);
  });

  test("of a folder without a backup ends with 1, of a damaged backup with 3", async (t) => {
    const damaged = await prepare(t, A, `${A}x\n`);
    for (const [source, expected] of [
      [makeFolder(t), 1],
      [damaged, 3],
    ] as const) {
      const { status, stdout, stderr } = await runCli(["restore", source, "--data", makeFolder(t)]);
      assert.deepEqual([status, stdout], [expected, ""]);
      assert.ok(stderr.includes(source), stderr);
    }
  });
});

describe("import and export", AT_ONCE, () => {
  test("import of a file creates its plants, names each refused line, and ends with 3", async (t) => {
    const folder = makeFolder(t);
    const file = join(makeFolder(t), "plants.txt");
    writeFileSync(file, `\ufeff${A}\nx\n${B.trimEnd()}`);
    const { status, stdout, stderr } = await runCli(["import", file, "--data", folder]);
    assert.equal(status, 3);
    assert.match(stdout, /\b2\b.*\b0\b.*\b1\b/);
    assert.match(stderr, /\b3\b/);
    assert.equal(stderr.split("\n").length, 2);
    assert.equal(readLog(folder), A + B);
  });

  test("import reads what export prints from standard input, and changes nothing the second time", async (t) => {
    const source = await prepare(t, `${A}\n${B}`);
    const exported = await runCli(["export", "--data", source]);
    assert.deepEqual(exported, { status: 0, signal: null, stdout: A + B, stderr: "" });
    const target = makeFolder(t);
    for (const counts of [/\b2\b.*\b0\b.*\b0\b/, /\b0\b.*\b2\b.*\b0\b/]) {
      const { status, stdout, stderr } = await runCli(["import", "-", "--data", target], {
        stdin: exported.stdout,
      });
      assert.deepEqual([status, stderr], [0, ""]);
      assert.match(stdout, counts);
    }
    assert.equal(readLog(target), A + B);
    const store = await openStore(t, target);
    assert.equal((await collect(store.list())).length, 2);
  });

  const READERS: readonly (readonly string[])[] = [["export"], ["get", "2"], ["import", "-"]];
  for (const words of READERS) {
    test(`${words[0]} ends with 3 if the log is damaged or gone`, async (t) => {
      const folder = await prepare(t, A, `${A}x\n`);
      const run = () => runCli([...words, "--data", folder]);
      assert.equal((await run()).status, 3);
      rmSync(logPath(folder));
      assert.equal((await run()).status, 3);
      assert.equal(existsSync(logPath(folder)), false);
    });
  }

  test("import of a backup, or of the directory of a server, creates its plants", async (t) => {
    const source = await prepare(t, A + B);
    const copy = join(makeFolder(t), "copy");
    assert.equal((await runCli(["backup", copy, "--data", source])).status, 0);
    const store = await openStore(t, source); // this process has it open
    await store.create({ id: 3n, name: "c" });
    const target = makeFolder(t);
    for (const [from, counts] of [
      [copy, /\b2\b.*\b0\b.*\b0\b/],
      [source, /\b1\b.*\b2\b.*\b0\b/],
    ] as const) {
      const { status, stdout, stderr } = await runCli(["import", from, "--data", target]);
      assert.deepEqual([status, stderr], [0, ""]);
      assert.match(stdout, counts);
    }
    assert.equal(readLog(target), readLog(source));
  });

  test("import of a directory whose log is damaged creates nothing, names path, line and byte, and ends with 3", async (t) => {
    const source = await prepare(t, A + B, `${A}x\n${B}`);
    const target = join(makeFolder(t), "data");
    const { status, stdout, stderr } = await runCli(["import", source, "--data", target]);
    assert.deepEqual([status, stdout], [3, ""]);
    assert.ok(stderr.includes(logPath(source)), stderr);
    assert.match(stderr, /\b2\b.*\b20\b/);
    assert.equal(existsSync(target), false);
  });

  test("import and restore of a folder of numbered backups end with 1, and name one of them", async (t) => {
    const [data, folder] = [await prepare(t, A), makeFolder(t)];
    assert.equal((await runCli(["backup", "--into", folder, "--data", data])).status, 0);
    const backups = readdirSync(folder).filter((name) => name.startsWith("plants-"));
    for (const command of ["import", "restore"]) {
      const target = join(makeFolder(t), "data");
      const { status, stdout, stderr } = await runCli([command, folder, "--data", target]);
      assert.deepEqual([status, stdout], [1, ""]);
      for (const each of [folder, ...backups]) assert.ok(stderr.includes(each), stderr);
      assert.equal(existsSync(target), false);
    }
  });

  test("import of a file that has no lines ends with 3", async (t) => {
    const { status, stdout } = await runCli(["import", "/dev/zero", "--data", makeFolder(t)]);
    assert.deepEqual([status, stdout], [3, ""]);
  });

  test("import names the first 20 refused lines, and counts the others", async (t) => {
    const args = ["import", "-", "--data", makeFolder(t)];
    const { stdout, stderr } = await runCli(args, { stdin: "{}\n".repeat(23) });
    const lines = stderr.trimEnd().split("\n");
    assert.equal(lines.length, 21);
    assert.match(lines[19] ?? "", /refused line 20: /);
    assert.match(lines[20] ?? "", /refused 3 more lines$/);
    assert.match(stdout, /refused 23$/m);
  });

  test("import of a missing file ends with 1 and makes no store", async (t) => {
    const folder = join(makeFolder(t), "data");
    const { status } = await runCli(["import", join(folder, "none.jsonl"), "--data", folder]);
    assert.equal(status, 1);
    assert.equal(existsSync(folder), false);
  });
});
