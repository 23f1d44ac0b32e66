/** The commands over a data directory as processes: what they print, and how they end. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { backup, PlantStore, verifyLog } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { snapshot } from "../support/snapshot.ts";
import { logPath, openStore, readLog, writeLog } from "../support/stores.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 2 };

const A = '{"id":1,"name":"a"}\n';
const B = '{"id":2,"name":"b","tag":"t"}\n';
const Z = '{"id":1,"name":"z"}\n';

/** A folder with this log, which `edited` replaces after a clean stop. */
async function prepare(t: TestContext, log: string, edited = log): Promise<string> {
  const folder = makeFolder(t);
  writeLog(folder, log);
  await (await PlantStore.open(folder)).close();
  writeLog(folder, edited);
  return folder;
}

interface Run {
  readonly says: string;
  /** `DATA` is the folder, `NEW` a path that is free, and `FILE` a file with `stdin`. */
  readonly words: string;
  /** The log at the last stop, and now. */
  readonly log: string;
  readonly edited?: string;
  readonly stdin?: string;
  readonly status: number;
  readonly stdout?: RegExp;
  readonly stderr?: RegExp;
  /** The log afterwards; missing: as before. */
  readonly after?: string;
}

const DAMAGED = { log: A, edited: `${A}x\u001b[2J\n${B}` };
const SHORTER = { log: A + B, edited: A };
const PLACE = /DATA\/plants\.jsonl": line 2, byte offset 20: .*; restore .* backup, or .*repair/;
const SHORT = /DATA\/plants\.jsonl": it has 20 bytes; .* 50 bytes; restore .*repair/;
const NO_FOLDER = /^plant-store: Cannot read "NEW": there is no such folder; .*--data\n$/;
const COUNTS = (created: number, stored: number, refused: number) =>
  new RegExp(`^created ${created}, already stored ${stored}, refused ${refused}\n$`);

const RUNS: readonly Run[] = [
  ...["serve --port 0", "verify", "export", "get 2", "backup NEW", "import -"].flatMap(
    (words): Run[] => [
      { says: `${words} of a damaged log is refused`, words, ...DAMAGED, status: 3, stderr: PLACE },
      { says: `${words} of a shorter log is refused`, words, ...SHORTER, status: 3, stderr: SHORT },
    ],
  ),
  {
    says: "verify of a sound log prints its report and a verdict",
    ...{ words: "verify", log: A + B, status: 0 },
    stdout: /^plants +2\nbytes +50\ntorn bytes +0\nThe log is sound/,
  },
  {
    says: "verify --json prints one object",
    ...{ words: "verify --json", log: A, status: 0 },
    stdout: /^{"plants":1,"bytes":20,"tornBytes":0}\n$/,
  },
  {
    says: "get prints one plant",
    ...{ words: "get 2", log: A + B, status: 0 },
    stdout: /^{"id":2,.*}\n$/,
  },
  {
    says: "get of an unknown id ends with 1",
    ...{ words: "get 3", log: A, status: 1 },
    stderr: /no plant has the id 3\n$/,
  },
  {
    says: "repair of a sound log does nothing",
    ...{ words: "repair", log: A, status: 0 },
    stdout: /^nothing to repair: 1 plant\n$/,
  },
  {
    says: "repair says what it would do, and changes nothing",
    ...{ words: "repair", ...DAMAGED, status: 3 },
    stdout: /^repair would write a new log of every plant .* nothing was changed: --yes does it\n$/,
    stderr: PLACE,
  },
  {
    says: "repair --yes writes a new log, and names what it left out",
    ...{ words: "repair --yes", ...DAMAGED, status: 0, after: A + B },
    stdout: /^repaired: 2 plants, 1 line moved to plants\.jsonl\.quarantine\n$/,
    stderr: /^plant-store: left out: line 2, byte offset 20: invalid JSON .*\n$/,
  },
  {
    says: "repair --yes accepts an edited log",
    ...{ words: "repair --yes", ...SHORTER, status: 0 },
    stdout: /^repaired: 1 plant, 0 lines moved/,
  },
  {
    says: "import - creates every plant that it can, and names the refused lines",
    ...{ words: "import -", log: "", status: 3, after: A + B },
    ...{ stdin: `\ufeff${A}\nx\n${B}`, stdout: COUNTS(2, 0, 1) },
    stderr: /^plant-store: refused line 3: invalid JSON .*\n$/,
  },
  {
    says: "import of a file with a bad line creates nothing",
    ...{ words: "import FILE", log: "", status: 3, stdin: `${A}x\n${B}[]` },
    stderr: /refused line 2: .*\n.*refused line 4: .*\n.*nothing was created: correct "FILE" and /,
  },
  {
    says: "import of a file counts what is stored already",
    ...{ words: "import FILE", log: A, status: 0, after: A + B },
    ...{ stdin: `\ufeff${A}\n${B.trimEnd()}`, stdout: COUNTS(1, 1, 0) },
  },
  {
    says: "import of a file refuses another plant of an id, and creates the others",
    ...{ words: "import FILE", log: A, status: 3, after: A + B },
    ...{
      stdin: Z + B,
      stdout: COUNTS(1, 0, 1),
      stderr: /refused line 1: .* plant 1: /,
    },
  },
  {
    says: "import names the first 20 refused lines, and counts the others",
    ...{
      words: "import -",
      log: "",
      status: 3,
      stdin: "{}\n".repeat(23),
      stdout: COUNTS(0, 0, 23),
    },
    stderr: /^(.*refused line .*\n){20}plant-store: refused 3 more lines\n$/,
  },
  {
    says: "import of a text without lines is refused",
    ...{ words: "import /dev/zero", log: "", status: 3, stderr: /Expected one plant a line, got / },
  },
  {
    says: "import of a missing file ends with 1",
    ...{ words: "import NEW", log: "", status: 1 },
    stderr: /^plant-store: Cannot read "NEW": no such file or directory \(ENOENT\)\n$/,
  },
  {
    says: "import of a folder ends with 1",
    ...{ words: "import DATA", log: "", status: 1 },
    stderr: /"DATA": it is a folder; .*plants\.jsonl"/,
  },
  {
    says: "restore over a store is refused",
    ...{ words: "restore DATA", log: A, status: 1 },
    stderr: /expected an empty folder, found "plants\.jsonl/,
  },
  {
    says: "restore of a missing backup ends with 1",
    ...{ words: "restore NEW", log: "", status: 1 },
    stderr: NO_FOLDER,
  },
];

describe("commands", AT_ONCE, () => {
  for (const { says, words, log, edited, stdin = "", status, stdout, stderr, after } of RUNS) {
    test(says, async (t) => {
      const [data, other] = [await prepare(t, log, edited), makeFolder(t)];
      const [free, file] = [join(other, "new"), join(other, "file")];
      writeFileSync(file, stdin);
      const before = snapshot(data);
      const args = words.split(" ").map((word) => {
        return word.replace("DATA", data).replace("NEW", free).replace("FILE", file);
      });
      const result = await runCli([...args, "--data", data], { stdin });
      const shown = (text: string) =>
        text
          .replaceAll(data, "DATA")
          .replaceAll(free, "NEW")
          .replaceAll(file, "FILE")
          .replaceAll('\\"', '"');
      assert.equal(result.status, status, result.stderr);
      assert.match(shown(result.stdout), stdout ?? (args[0] === "export" ? /^{.*}\n$/ : /^$/));
      assert.match(shown(result.stderr), stderr ?? /^$/);
      assert.equal(result.stderr.includes("\u001b"), false, "no control character is printed");
      assert.equal(existsSync(free), false);
      if (after !== undefined) assert.equal(readLog(data), after);
      else if (status !== 0) assert.deepEqual(snapshot(data), before);
    });
  }

  for (const words of ["verify", "export", "get 1", "repair", "backup NEW", "token list"]) {
    test(`${words} without a data directory names the folder, and makes nothing`, async (t) => {
      const [folder, target] = [join(makeFolder(t), "data"), join(makeFolder(t), "copy")];
      const args = words.replace("NEW", target).split(" ");
      const { status, stdout, stderr } = await runCli([...args, "--data", folder]);
      assert.deepEqual([status, stdout], [1, ""]);
      assert.match(stderr.replaceAll(folder, "NEW"), NO_FOLDER);
      assert.deepEqual([existsSync(folder), existsSync(target)], [false, false]);
    });
  }

  test("a log that is gone is refused, and an empty one is made only by repair --yes", async (t) => {
    const folder = await prepare(t, A);
    rmSync(logPath(folder));
    for (const words of [["verify"], ["export"], ["serve", "--port", "0"], ["repair"]]) {
      const { status, stderr } = await runCli([...words, "--data", folder]);
      assert.equal(status, 3);
      assert.match(stderr, /it is missing; its checkpoint knows 20 bytes; restore .*repair/);
      assert.equal(existsSync(logPath(folder)), false);
    }
    assert.equal((await runCli(["repair", "--yes", "--data", folder])).status, 0);
    assert.equal(readLog(folder), "");
  });

  test("an unfinished restore is refused, also by repair", async (t) => {
    const folder = makeFolder(t);
    writeFileSync(`${logPath(folder)}.new`, A);
    for (const words of [["verify"], ["serve", "--port", "0"], ["repair", "--yes"]]) {
      const { status, stderr } = await runCli([...words, "--data", folder]);
      assert.equal(status, 3, stderr);
      assert.match(stderr, /a restore .* was not finished; empty the folder/);
    }
  });

  test("what export prints can be imported, and a backup be restored, beside a running store", async (t) => {
    const data = await prepare(t, A + B);
    const store = await openStore(t, data); // this process has it open
    const exported = await runCli(["export", "--data", data]);
    assert.deepEqual(exported, { status: 0, signal: null, stdout: A + B, stderr: "" });
    const [imported, copy, restored] = ["imported", "copy", "restored"].map((name) =>
      join(makeFolder(t), name),
    );
    const words = ["import", "-", "--data", `${imported}`];
    assert.equal((await runCli(words, { stdin: exported.stdout })).status, 0);
    const backedUp = await runCli(["backup", `${copy}`, "--data", data]);
    assert.equal(backedUp.stdout, `backed up 2 plants, 50 bytes, to "${copy}"\n`);
    const done = await runCli(["restore", `${copy}`, "--data", `${restored}`]);
    assert.equal(done.stdout, `restored 2 plants, 50 bytes, into "${restored}"\n`);
    for (const folder of [imported, copy, restored]) {
      assert.equal(readLog(`${folder}`), A + B);
      await verifyLog(`${folder}`);
    }
    const refused = await runCli(["repair", "--yes", "--data", data]);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /is in use by "library" \(process \d+/);
    await store.close();
  });

  test("backup --into adds a backup to a folder, and names what it removed", async (t) => {
    const [data, folder] = [await prepare(t, A + B), makeFolder(t)];
    const old = "plants-20200101T000000Z";
    await backup(data, join(folder, old));
    const args = ["backup", "--into", folder, "--keep", "1", "--data", data];
    const { status, stdout, stderr } = await runCli(args);
    assert.deepEqual([status, stderr], [0, ""]);
    const [name = ""] = readdirSync(folder);
    const place = join(folder, name);
    assert.equal(stdout, `backed up 2 plants, 50 bytes, to "${place}"; removed ${old}\n`);
    assert.deepEqual(readdirSync(folder), [name]);
  });

  const USAGES = [
    "",
    "copy --into backups",
    "copy --keep 14",
    "--keep 3",
    "--into backups --keep 0",
    "--into backups --keep 10001",
    "one two",
  ];
  for (const words of USAGES) {
    test(`backup ${words} is wrong usage, and makes nothing`, async (t) => {
      const [data, cwd] = [await prepare(t, A), makeFolder(t)];
      const args = ["backup", ...words.split(" ").filter(Boolean), "--data", data];
      const { status, stdout, stderr } = await runCli(args, { cwd });
      assert.deepEqual([status, stdout], [2, ""]);
      assert.notEqual(stderr, "");
      assert.deepEqual(readdirSync(cwd), []);
    });
  }

  test("import of a bad file makes no data directory", async (t) => {
    const folder = makeFolder(t);
    mkdirSync(join(folder, "sub"));
    writeFileSync(join(folder, "bad.jsonl"), `${A}x\n`);
    const words = ["import", join(folder, "bad.jsonl"), "--data", join(folder, "sub", "data")];
    assert.equal((await runCli(words)).status, 3);
    assert.deepEqual(readdirSync(join(folder, "sub")), []);
  });
});
