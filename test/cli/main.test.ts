import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { PROGRAM } from "../support/program.ts";
import { type Finished, runToEnd } from "../support/run.ts";
import { writeLog } from "../support/stores.ts";
import { NEEDS_TERMINAL, terminalArgs } from "../support/terminal.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 4 };

const DEEP = { recursive: true };

/** A message is one line, and never a stack. */
function assertOneLine(text: string): void {
  assert.match(text, /^plant-store: [^\n]+\n$/);
}

test("the version of the program is that of the package", () => {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  assert.equal(VERSION, JSON.parse(manifest).version);
});

describe("a requested help or version goes to standard output, with status 0", AT_ONCE, () => {
  const ASKED: readonly [words: string, stdout: RegExp][] = [
    ["--version", new RegExp(`^${VERSION.replaceAll(".", "\\.")}\n$`)],
    ["--help", /\bserve\b[\s\S]*\btoken create NAME\b[\s\S]*\bget ID\b/],
    ["serve --help", /^Usage: plant-store serve [\s\S]*PLANT_STORE_BASE_PATH/],
    ["token create --help", /^Usage: plant-store token create NAME [\s\S]*--expires/],
    ["token list --help", /^Usage: plant-store token list [\s\S]*--json/],
    ["token revoke --help", /^Usage: plant-store token revoke NAME [\s\S]*PLANT_STORE_DATA/],
    ["get --help", /^Usage: plant-store get ID [\s\S]*PLANT_STORE_DATA/],
    ["export --help", /^Usage: plant-store export [\s\S]*PLANT_STORE_DATA/],
    ["help", /\bserve\b[\s\S]*\btoken create NAME\b/],
    ["token --help", /\btoken revoke NAME\b/],
    ["print openapi -h", /^Usage: plant-store print openapi\n\n[^\n]+\n$/],
  ];
  for (const [words, stdout] of ASKED) {
    test(words, async () => {
      const end = await runCli(words.split(" "));
      assert.deepEqual([end.status, end.stderr], [0, ""]);
      assert.match(end.stdout, stdout);
    });
  }
});

describe("wrong usage is one line on standard error, with status 2", AT_ONCE, () => {
  const WRONG: readonly [words: string[], named: string][] = [
    [["start"], "serve, token create,"],
    [
      ["token", "make", "x"],
      'one of: token create, token list, token revoke, token import; got "token make"',
    ],
    [["export", "--dtaa", "/d"], "--dtaa"],
    [["--port", "80", "serve"], 'got "--port"'],
    [["serve", "--admin", "/run/admin.sock"], "HOST:PORT"],
    [["export", "--data"], "--data"],
    [["get", "7.5"], '"7.5"'],
    [["get", "9223372036854775808"], "from -9223372036854775808 to 9223372036854775807"],
    [["token", "create", "two words"], '"two words"'],
  ];
  for (const [words, named] of WRONG) {
    test(words.join(" "), async (t) => {
      const end = await runCli(words, { cwd: makeFolder(t) });
      assert.deepEqual([end.status, end.stdout], [2, ""]);
      assertOneLine(end.stderr);
      assert.ok(end.stderr.includes(named), end.stderr);
    });
  }
});

test("variables that Kubernetes sets for a Service are ignored", async (t) => {
  const env = {
    PLANT_STORE_HOST: "127.0.0.1",
    PLANT_STORE_PORT: "tcp://10.0.0.7:8080",
    PLANT_STORE_PORT_8080_TCP: "tcp://10.0.0.7:8080",
    PLANT_STORE_PORT_8080_TCP_ADDR: "10.0.0.7",
    PLANT_STORE_SERVICE_HOST: "10.0.0.7",
    PLANT_STORE_SERVICE_PORT: "8080",
    PLANT_STORE_SERVICE_PORT_HTTP: "8080",
    PLANT_STORE_ADMIN_SERVICE_HOST: "10.0.0.8",
    PLANT_STORE_ADMIN_PORT: "tcp://10.0.0.8:9180",
  };
  const server = await startServer(t, ["--data", makeFolder(t)], { env });
  const { status, stderr } = await server.stop();
  assert.deepEqual([status, messagesOf(stderr)], [0, []]);
});

test("serve names a variable with our prefix that it does not have, without its value", async (t) => {
  const env = { PLANT_STORE_DATA_DIR: "/secret", PLANT_STORE_LOGLEVEL: "x" };
  const server = await startServer(t, ["--data", makeFolder(t)], { env });
  const [warning = "", ...others] = messagesOf((await server.stop()).stderr);
  assert.match(warning, /PLANT_STORE_DATA_DIR, PLANT_STORE_LOGLEVEL:/);
  assert.doesNotMatch(warning, /secret/);
  assert.deepEqual(others, []);
});

test("a variable cannot make repair change a log unasked", async (t) => {
  const data = makeFolder(t);
  writeLog(data, "rubbish\n");
  const end = await runCli(["repair", "--data", data], { env: { PLANT_STORE_YES: "1" } });
  assert.notEqual(end.status, 0);
  assert.equal(readFileSync(join(data, "plants.jsonl"), "utf8"), "rubbish\n");
});

test("no command at all is wrong usage, and shows the help on standard error", async () => {
  const end = await runCli([]);
  assert.deepEqual([end.status, end.stdout], [2, ""]);
  assert.match(end.stderr, /\btoken create NAME\b/);
});

describe(
  "data that needs a person ends a command with status 3, and is not changed",
  AT_ONCE,
  () => {
    const GOOD = '{"id":1,"name":"Fern"}\n';
    const DAMAGED: readonly [fault: string, words: string[], file: string, content: string][] = [
      ["a line that is no plant", ["export"], "plants.jsonl", `${GOOD}{"id":2}\n${GOOD}`],
      ["one id with two names", ["serve"], "plants.jsonl", `${GOOD}{"id":1,"name":"Moss"}\n`],
      ["a line that is no token", ["token", "list"], "tokens.jsonl", '{"event":"lost"}\n'],
      ["a token file that is damaged", ["serve"], "tokens.jsonl", "rubbish\n"],
    ];
    for (const [fault, words, file, content] of DAMAGED) {
      test(`${words.join(" ")}: ${fault}`, async (t) => {
        const folder = makeFolder(t);
        writeFileSync(join(folder, file), content);
        const end = await runCli([...words, "--data", folder], { env: { PLANT_STORE_PORT: "0" } });
        assert.equal(end.status, 3);
        const [message = "", ...others] = messagesOf(end.stderr);
        assert.deepEqual(others, []);
        assert.match(message, new RegExp(`${file}": line ${content.startsWith(GOOD) ? 2 : 1}\\b`));
        assert.equal(readFileSync(join(folder, file), "utf8"), content);
      });
    }
  },
);

describe("a refusal of the system ends a command with status 1 and one line", AT_ONCE, () => {
  const REFUSED: readonly [fault: string, words: string[], prepare: (data: string) => void][] = [
    ["no such folder", ["export"], () => {}],
    ["no such folder", ["token", "list"], () => {}],
    ["no such folder", ["token", "revoke", "x"], () => {}],
    ["the folder is a file", ["export"], (data) => writeFileSync(data, "")],
    ["the folder is a file", ["token", "create", "x"], (data) => writeFileSync(data, "")],
    ["the log is a folder", ["export"], (data) => mkdirSync(join(data, "plants.jsonl"), DEEP)],
    [
      "the log is a folder",
      ["token", "list"],
      (data) => mkdirSync(join(data, "tokens.jsonl"), DEEP),
    ],
  ];
  for (const [fault, words, prepare] of REFUSED) {
    test(`${words.join(" ")}: ${fault}`, async (t) => {
      const data = join(makeFolder(t), "data");
      prepare(data);
      const end = await runCli([...words, "--data", data]);
      assert.deepEqual([end.status, end.stdout], [1, ""]);
      assertOneLine(end.stderr);
      assert.ok(end.stderr.includes(data), end.stderr);
    });
  }
});

/** Runs a shell line in which `"$@"` is the program with these words. */
function runInShell(line: string, words: readonly string[]): Promise<Finished> {
  return runToEnd(["sh", "-c", line, "sh", process.execPath, PROGRAM, ...words]);
}

test("export ends quietly with status 0 if its reader stops early", async (t) => {
  const folder = makeFolder(t);
  const line = (id: number) => `{"id":${id},"name":"${"Fern ".repeat(100)}"}\n`;
  // More than any pipe holds, so export writes into the closed pipe.
  writeLog(folder, Array.from({ length: 5000 }, (_, id) => line(id)).join(""));
  const piped = '{ "$@"; echo "status $?" >&2; } | head -n 1';
  const end = await runInShell(piped, ["export", "--data", folder]);
  assert.deepEqual([end.stdout, end.stderr], [line(0), "status 0\n"]);
});

for (const [words, status] of [
  ["export", 0],
  ["get 1", 1],
] as const) {
  test(`${words} ends with status ${status} if its reader has gone`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, '{"id":1,"name":"Fern"}\n');
    const pipe = join(makeFolder(t), "pipe");
    const unread = `mkfifo "${pipe}"; exec 3<>"${pipe}" 4>"${pipe}" 3>&-; exec "$@" >&4`;
    const end = await runInShell(unread, [...words.split(" "), "--data", folder]);
    assert.equal(end.status, status, end.stderr);
  });
}

for (const words of ["export", "token create gardener"]) {
  test(`a full standard output ends ${words} with status 1 and one line`, async (t) => {
    const folder = makeFolder(t);
    writeLog(folder, '{"id":1,"name":"Fern"}\n');
    const args = [...words.split(" "), "--data", folder];
    const end = await runInShell('exec "$@" >/dev/full', args);
    assert.equal(end.status, 1);
    assertOneLine(end.stderr);
  });
}

test("export ends with status 1 and one line if only a part fits into its standard output", async (t) => {
  const folder = makeFolder(t);
  const line = (id: number) => `{"id":${id},"name":"${"Fern ".repeat(100)}"}\n`;
  // One block of the reader, and longer than the limit of a file here: half a MiB.
  writeLog(folder, Array.from({ length: 1800 }, (_, id) => line(id)).join(""));
  const target = join(makeFolder(t), "copy.jsonl");
  const limited = `ulimit -f 1024; exec "$@" >"${target}"`;
  const end = await runInShell(limited, ["export", "--data", folder]);
  assert.equal(end.status, 1);
  assertOneLine(end.stderr);
});

test("a message that nobody reads changes no exit status", async () => {
  const child = spawn(process.execPath, [PROGRAM, "srve"]);
  child.stderr.destroy();
  assert.deepEqual(await once(child, "exit"), [2, null]);
});

test("a thrown value that is no error ends a command with status 1 and one line", async () => {
  const source = "process.stdout.write = () => { throw 7; }";
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
  const end = await runCli(["--version"], { env });
  assert.equal(end.status, 1);
  assertOneLine(end.stderr);
});

/** A disk on which every write fails halfway, and no file can be cut. */
const DYING_DISK = `
  import fs, { promises } from "node:fs";
  const handle = Object.getPrototypeOf(await promises.open("/dev/null"));
  const { write } = handle;
  const fail = () => { throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" }); };
  let calls = 0;
  handle.write = function (bytes, start) {
    return calls++ % 2 === 0 ? write.call(this, bytes, start, 5, null) : fail();
  };
  fs.ftruncateSync = fail;`;

test("an import whose write fails and cannot be undone ends with 3, and says to restart the machine", async (t) => {
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(DYING_DISK)}` };
  const words = ["import", "-", "--data", join(makeFolder(t), "data")];
  const end = await runCli(words, { env, stdin: '{"id":1,"name":"a"}\n' });
  assert.deepEqual([end.status, end.stdout], [3, ""], end.stderr);
  assert.match(end.stderr, /restart the machine before you start again\n$/);
});

describe("no stored or typed text controls the terminal", AT_ONCE, () => {
  /** Control characters and marks of direction that JSON text may contain unescaped. */
  const RAW = "\u007f\u0080\u009b31m\u009f\u061c\u200e\u200f\u2028\u2029\u202e\u2066\ufeff";
  const HOSTILE = `\u0001\u0007\b\t\n\u000b\f\r\u001b[31m${RAW}`;
  const NEVER = /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029\ufeff]/u;
  const PLANT = { id: 1, name: HOSTILE, tag: HOSTILE };
  // JSON.stringify leaves RAW unescaped, as a line written by hand may.
  const LOG = `${JSON.stringify(PLANT)}\n`;
  assert.ok(LOG.includes(RAW));
  /** After the plant, two lines that are not plants. */
  const DAMAGED = `${LOG}${HOSTILE}\n`;

  /** `lines` are those on standard output and on standard error. */
  const RUNS: readonly [words: string[], log: string, status: number, lines: [number, number]][] = [
    [["get", HOSTILE], LOG, 2, [0, 1]],
    [["export"], `${HOSTILE}\n`, 3, [0, 1]],
    [["verify"], DAMAGED, 3, [6, 2]],
    [["verify", "--json"], LOG, 0, [1, 0]],
    [["repair"], DAMAGED, 3, [1, 2]],
    [["repair", "--yes"], DAMAGED, 0, [1, 2]],
    [["backup", `./${HOSTILE}copy`], LOG, 0, [1, 0]],
    [["backup", `./${HOSTILE}copy`], DAMAGED, 3, [0, 1]],
    [["import", "-"], LOG, 3, [1, 2]],
    [["import", HOSTILE], LOG, 1, [0, 1]],
    [["health", "--base-path", `/${HOSTILE}x`], LOG, 2, [0, 1]],
    [["health", "--admin", HOSTILE], LOG, 2, [0, 1]],
    [["token", "create", HOSTILE], LOG, 2, [0, 1]],
    [["token", "list"], LOG, 3, [0, 1]],
    [["token", "revoke", HOSTILE], LOG, 1, [0, 1]],
    [["print", "openapi", HOSTILE], LOG, 2, [0, 1]],
    [["serve", "--port", HOSTILE], LOG, 2, [0, 1]],
    [["serve", "--tls-cert", HOSTILE, "--tls-key", HOSTILE], LOG, 1, [0, 1]],
    [[HOSTILE], LOG, 2, [0, 1]],
  ];
  for (const [words, log, status, lines] of RUNS) {
    // The name of a test is shown in a terminal, too.
    const typed = words.join(" ").replaceAll(HOSTILE, "(controls)");
    test(`${typed}, with a log of ${log.length} characters, ends with ${status}`, async (t) => {
      // The path contains the characters, too, because messages name it.
      const cwd = join(makeFolder(t), HOSTILE);
      mkdirSync(cwd);
      const data = join(cwd, "data");
      mkdirSync(data, 0o700);
      writeLog(data, log);
      if (words[1] === "list") writeFileSync(join(data, "tokens.jsonl"), `${HOSTILE}\n`);
      const end = await runCli(words, { cwd, env: { PLANT_STORE_DATA: data }, stdin: HOSTILE });
      assert.equal(end.status, status, end.stderr);
      assert.doesNotMatch(end.stdout + end.stderr, NEVER);
      assert.deepEqual([countLines(end.stdout), countLines(end.stderr)], lines);
    });
  }

  const SHOWN: readonly [words: string[], log: string, status: number][] = [
    [["get", "1"], LOG, 0],
    [["export"], LOG, 0],
    [["export"], DAMAGED, 3],
    [["verify"], DAMAGED, 3],
  ];
  for (const [words, log, status] of SHOWN) {
    const typed = `${words.join(" ")}, with a log of ${log.length} characters`;
    test(`at a terminal ${typed}, ends with ${status}`, NEEDS_TERMINAL, async (t) => {
      const data = join(makeFolder(t), HOSTILE);
      mkdirSync(data, 0o700);
      writeLog(data, log);
      const end = await runToEnd(["script", ...terminalArgs([...words, "--data", data])]);
      assert.equal(end.status, status, end.stdout);
      const text = end.stdout.replaceAll("\r\u001b[K", "").replaceAll("\r\n", "\n");
      assert.doesNotMatch(text, NEVER);
      const [first = ""] = text.split("\n");
      if (words[0] !== "verify") assert.deepEqual(JSON.parse(first), PLANT);
    });
  }

  test("serve itself", async (t) => {
    const server = await startServer(t, ["--data", `./${HOSTILE}`], { cwd: makeFolder(t) });
    const { stdout, stderr } = await server.stop();
    assert.doesNotMatch(stdout + stderr, NEVER);
  });

  const LINES: readonly [what: string, line: string][] = [
    ["raw control characters", LOG],
    ["escapes that JSON does not ask for", '{"id":1,"name":"\\u007f\\u202e\\/"}\n'],
  ];
  for (const words of [["export"], ["get", "1"]]) {
    for (const [what, line] of LINES) {
      test(`but ${words[0]} prints a line with ${what} as it is, into a pipe`, async (t) => {
        const data = makeFolder(t);
        writeLog(data, line);
        assert.equal((await runCli([...words, "--data", data])).stdout, line);
      });
    }
  }
});

function countLines(text: string): number {
  return text.split("\n").length - 1;
}
