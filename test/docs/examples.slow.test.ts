/**
 * The commands of the documentation, typed into a shell as they are written.
 *
 * A `console` block is a session, whose output must be as shown. In a `sh` block every command has to
 * succeed, as a plain `sh` judges it. Programs that
 * work on other machines, or install and build, are replaced by small ones that check their arguments and do
 * the part that is visible here. Absolute paths lead into the folder of the test.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Writable } from "node:stream";
import { after, before, type TestContext, test } from "node:test";
import { canRun } from "../faults/machine.ts";
import { runCli, startServer } from "../support/cli.ts";
import {
  type Block,
  blocksOf,
  CONTAINER_FILES,
  codeBlocks,
  PAGES,
  pipedCommands,
  proseOf,
  readPage,
  typed,
} from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { PROGRAM } from "../support/program.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const BLOCKS = PAGES.flatMap(blocksOf);

/** Pages whose sessions talk to a server on port 8080, with a token in $TOKEN. */
const WITH_SERVER = ["README.md", "docs/api.md"];

interface Step {
  readonly command: string;
  readonly output: string;
}

/** The commands of a session, with their continuation lines, and the output of each. */
function stepsOf({ code }: Block): Step[] {
  return code
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const [command = ""] = /^(?:.*\\\n)*.*\n/.exec(step) ?? [];
      return { command, output: step.slice(command.length) };
    });
}

/** Sessions that share a folder and a shell: all of a page with a server, or else each for itself. */
const SESSIONS = PAGES.flatMap((page) => {
  const sessions = blocksOf(page).filter(({ language }) => language === "console");
  return WITH_SERVER.includes(page) ? [sessions] : sessions.map((session) => [session]);
});

for (const session of SESSIONS) {
  const [{ place = "" } = {}] = session;
  const isServed = WITH_SERVER.some((page) => place.startsWith(`${page}:`));
  test(`${place}: the session prints what is shown`, TIMEOUT, async (t) => {
    for (const tool of ["bash", "curl", "jq"]) if (!canRun(t, tool, "--version")) return;
    const folder = makeFolder(t);
    const { port, token } = isServed ? await serve(t, folder) : { port: 0, token: "" };
    const shell = startShell(t, folder, { TOKEN: token });
    const adapt = (text: string) => {
      return text.replaceAll(/\b8080\b/g, String(port)).replaceAll("pst_…", token);
    };
    const steps = session.flatMap(stepsOf);
    assert.ok(steps.length > 0, "there is something to type");
    let expected = "";
    for (const { command, output } of steps) {
      shell.type(adapt(command));
      // An answer has no line feed at its end, but the page needs one.
      expected += adapt(output).replaceAll("\n", "");
      const printed = () => shell.output().replaceAll("\n", "");
      // Background jobs may have printed more. If the wait was in vain, the difference is the message.
      await until(`after "${command}"`, () => printed().startsWith(expected)).catch(() => {});
      assert.equal(printed().slice(0, expected.length), expected, command);
    }
    assert.equal(shell.output().replaceAll("\n", ""), expected);
  });
}

/** Starts a server in the folder; the token may write and read. */
async function serve(t: TestContext, folder: string) {
  const words = ["token", "create", "docs", "--scope", "write", "--scope", "read"];
  const { stdout } = await runCli(words, { cwd: folder });
  const { port } = await startServer(t, [], { cwd: folder });
  return { port, token: stdout.trim() };
}

/** Reads commands from descriptor 3, so that no program finds them on its standard input. */
const SHELL = `set -m
trap 'kill -9 $(jobs -p)' EXIT
trap exit TERM
while IFS= read -r -d "" step <&3; do eval "$step"; done`;

/** Starts a shell with job control; it and its jobs end with the test. */
function startShell(t: TestContext, folder: string, variables: Record<string, string>) {
  // Under npm a second signal at once would be taken for npm's copy of the first.
  const own = { ...process.env, npm_lifecycle_event: undefined };
  const env = { ...own, ...variables, PATH: makePath(folder) };
  const stdio = ["ignore", "pipe", "ignore", "pipe"] as const;
  const child = spawn("bash", ["--norc", "-c", SHELL], { cwd: folder, env, stdio: [...stdio] });
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill();
    await ended;
  });
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const steps = child.stdio[3] as Writable;
  return { type: (command: string) => steps.write(`${command}\0`), output: () => output };
}

/** Scripts that replace the programs which reach beyond the folder, by name. */
const REPLACED: Readonly<Record<string, string>> = {
  // Succeeds only for a script of the package.
  npm: `case $1 in
ci) exit 0;;
start|test) script=$1;;
run) script=$2;;
esac
exec node -e 'process.exit(process.argv[1] in require(process.argv[2]).scripts ? 0 : 1)' -- "$script" ${path.join(ROOT, "package.json")}`,
  ssh: 'shift; exec "$@"',
  rsync: `PATH=\${PATH#*:}; for word; do set -- "$@" "\${word#vm:}"; shift; done; exec rsync "$@"`,
  scp: `exec cp "$1" "\${2#vm:}"`,
  systemctl: `for unit in "$@"; do case $unit in *.socket|*.service) case "\${unit%.*}" in plant-store|orchids);; *) exit 1;; esac;; esac; done`,
  "systemd-sysusers":
    'for file in ./etc/sysusers.d/*.conf; do test -s "$file" || exit 1; done; exit 0',
  docker: `case $1 in
build) test -f "$3" && test "$4 $5 $6" = '-t plant-store .';;
tag) test "\${2%:before}\${3%:before}" = plant-storeplant-store;;
compose) test -f "$3" && case $4 in
up|logs|down) exit 0;;
exec) shift 6; exec plant-store "$@";;
*) exit 1;;
esac;;
run) until test "$1" = plant-store; do shift || exit 1; done
shift; test $# -eq 0 || exec plant-store "$@";;
stop|rm) test "\${@: -1}" = plants;;
exec) shift 3; exec plant-store "$@";;
cp) exec cp -r "\${2#plants:}" "$3";;
logs) exit 0;;
*) exit 1;;
esac`,
  git: 'test "$*" = pull',
  // There is neither the user nor the group of the service here.
  chown: 'test "$1" = root:plant-store && test -f "$2"',
  userdel: 'test "$*" = plant-store',
  install: 'test "$1 $2 $3 $4 $5" = "-D -g plant-store -m 640" && exec cp "$6" "$7"',
  kubectl: `case $1 in
apply|delete) test -f "$3";;
exec) until test "$1" = -- ; do shift || exit 1; done
shift 2; exec plant-store "$@";;
rollout|set) test "$3" = statefulset/plant-store;;
*) exit 1;;
esac`,
};

/** A value of PATH with `plant-store` and the replaced programs. */
function makePath(folder: string): string {
  const bin = path.join(folder, "bin");
  mkdirSync(bin);
  const programs = { ...REPLACED, "plant-store": `exec '${process.execPath}' '${PROGRAM}' "$@"` };
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(path.join(bin, name), `#!/bin/bash\n${script}\n`);
    chmodSync(path.join(bin, name), 0o755);
  }
  return `${bin}:${process.env.PATH}`;
}

/** Where Let's Encrypt has the pair of the service. */
const PAIR = "/etc/letsencrypt/live/plants.example";

/** Folders of a machine that the commands name. */
const FOLDERS = [
  PAIR,
  "/var/lib/plant-store",
  "/var/lib/orchids",
  "/etc/systemd/system",
  "/etc/sysusers.d",
  "/etc/plant-store",
  "/usr/local/bin",
  "/backup",
  "/home/nonroot",
];

/** A machine as the commands expect it: two stores, a backup, and a built program. */
const machine = mkdtempSync(path.join(tmpdir(), "plant-store-machine-"));
before(() => furnish(machine));
after(() => rmSync(machine, { recursive: true }));

async function furnish(folder: string): Promise<void> {
  for (const name of [...FOLDERS.map((each) => `.${each}`), "dist"]) {
    mkdirSync(path.join(folder, name), { recursive: true });
  }
  for (const name of ["dist/plant-store", `.${PAIR}/fullchain.pem`, `.${PAIR}/privkey.pem`]) {
    writeFileSync(path.join(folder, name), "");
  }
  for (const name of CONTAINER_FILES) {
    cpSync(path.join(ROOT, name), path.join(folder, name), { recursive: true });
  }
  for (const data of ["./var/lib/plant-store", "./home/nonroot/data"]) {
    const options = { cwd: folder, stdin: '{"id":1,"name":"Fern"}\n' };
    assert.equal((await runCli(["import", "-", "--data", data], options)).status, 0);
    assert.equal((await runCli(["token", "create", "first", "--data", data], options)).status, 0);
  }
  const words = [
    "backup",
    "./backup/plants-000042-20260701T000000Z",
    "--data",
    "./var/lib/plant-store",
  ];
  assert.equal((await runCli(words, { cwd: folder })).status, 0);
  cpSync(path.join(folder, "backup/plants-000042-20260701T000000Z"), path.join(folder, "monday"), {
    recursive: true,
  });
  const data = ["--data", "./home/nonroot/data"];
  const { stdout } = await runCli(["token", "export", ...data], { cwd: folder });
  writeFileSync(path.join(folder, "tokens.txt"), stdout);
  const [manifest = ""] = codeBlocks("docs/kubernetes.md", "Run it", "yaml");
  writeFileSync(path.join(folder, "plant-store.yaml"), manifest);
}

const COMMANDS_OF_ALL = BLOCKS.filter(({ language }) => language === "sh");

/** Those of these pages need a database: test/postgres tries them. */
const WITH_DATABASE = /^docs\/database(?:-setup)?\.md:/;
const COMMANDS = COMMANDS_OF_ALL.filter(({ place }) => !WITH_DATABASE.test(place));

for (const { place, code } of COMMANDS) {
  test(`${place}: the commands succeed`, TIMEOUT, async (t) => {
    if (code.includes("rsync ") && !canRun(t, "rsync", "--version")) return;
    const folder = makeFolder(t);
    cpSync(machine, folder, { recursive: true, filter: (file) => !/lock\.\d+$/.test(file) });
    const script = FOLDERS.reduce(
      (text, name) => {
        return text.replaceAll(new RegExp(`(?<![\\w/.])${name}\\b`, "g"), `${folder}${name}`);
      },
      code
        .replaceAll("plants:/", `plants:${folder}/`)
        .replaceAll(/\b80(?:81|99)\b/g, String(await freePort())),
    );
    const env = {
      ...process.env,
      PATH: makePath(folder),
      STATE_DIRECTORY: `${folder}/home/nonroot/data`,
    };
    const renewed = code.includes("$RENEWED_LINEAGE")
      ? ["/another/site", `${folder}${PAIR}`]
      : [""];
    for (const RENEWED_LINEAGE of renewed) {
      const options = { cwd: folder, env: { ...env, RENEWED_LINEAGE } };
      const { status, stderr } = await runToEnd(typed(script), options);
      assert.equal(status, 0, stderr);
    }
    if (renewed.length > 1) assert.ok(existsSync(`${folder}/etc/plant-store/key.pem`));
  });
}

/** Cannot fail in a way that matters. */
const SURE = /^(?:printf|echo)\b/;

test("no command to type hides in a pipe that its first part failed", () => {
  const sources = readdirSync(path.join(ROOT, "src/cli")).map((name) =>
    readPage(`src/cli/${name}`),
  );
  const helps = sources.flatMap((text) => text.match(/^ *plant-store .*$/gm) ?? []);
  assert.ok(helps.length > 2, "they are found");
  const inline = PAGES.flatMap((page) => {
    const words = Array.from(proseOf(page).matchAll(/`([^`]*)`/g), ([, code = ""]) => code);
    return words.filter((code) => / \| /.test(code));
  });
  // A session shows what is printed, and so a failure, unless it is passed on to be stored.
  const stored = SESSIONS.flat().flatMap(({ code }) => {
    return code.match(/^\$ .*\| (?:npx )?plant-store\b/gm) ?? [];
  });
  const code = [...COMMANDS_OF_ALL.map((block) => block.code), ...helps, ...inline, ...stored];
  const piped = code.flatMap(pipedCommands).filter((command) => !SURE.test(command));
  assert.deepEqual(piped, []);
  const example = "a 'x|y' || b \"|\" | c | d\ne && f \\\n  | g\n";
  assert.deepEqual(pipedCommands(example), ["b ''", "c", "f"]);
});

test("the first command of a block that fails ends it, as a plain shell without pipefail judges", async () => {
  assert.equal((await runToEnd(typed("false\ntrue\n"))).status, 1);
  assert.equal((await runToEnd(typed("true &&\n  (exit 3)\ntrue\n"))).status, 3);
  assert.equal((await runToEnd(typed("test 'a\nb' != a\nfalse | true\n"))).status, 0);
});

test("every code block is in a language that a test runs or checks", () => {
  const kinds = ["sh", "console", "ts", "nginx", "haproxy", "caddyfile", "ini", "yaml", "text"];
  const others = BLOCKS.filter(({ language }) => !kinds.includes(language));
  assert.deepEqual(others, []);
});

/** Starts a proxy, from its file of the page, before a server on this port. */
type StartProxy = (folder: string, port: number, upstream: number) => [string, ...string[]];

const PROXIES: Readonly<Record<string, StartProxy>> = {
  nginx(folder, port, upstream) {
    const [site = ""] = codeBlocks("docs/proxies.md", "nginx", "nginx");
    const adapted = site
      .replace("127.0.0.1:8080", `127.0.0.1:${upstream}`)
      .replace("listen 80;", `listen 127.0.0.1:${port};`);
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    const places = temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n");
    const file = path.join(folder, "nginx.conf");
    const rest = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log; events {}`;
    writeFileSync(file, `${rest}\nhttp { access_log off; ${places} ${adapted} }`);
    return ["nginx", "-c", file, "-p", folder, "-e", `${folder}/error.log`];
  },
  caddy(folder, port, upstream) {
    const [site = ""] = codeBlocks("docs/proxies.md", "Caddy", "caddyfile");
    const adapted = site
      .replace("127.0.0.1:8080", `127.0.0.1:${upstream}`)
      .replace("plants.example", `http://127.0.0.1:${port}`);
    const file = path.join(folder, "Caddyfile");
    writeFileSync(file, `{\n\tadmin off\n}\n${adapted}`);
    return ["caddy", "run", "--config", file, "--adapter", "caddyfile"];
  },
};
const VERSION_FLAG: Readonly<Record<string, string>> = { nginx: "-v", caddy: "version" };

for (const [name, startProxy] of Object.entries(PROXIES)) {
  test(
    `${name}, set up as the documentation says, passes on requests, streams and errors, and its own are JSON`,
    TIMEOUT,
    async (t) => {
      if (!canRun(t, name, VERSION_FLAG[name] ?? "")) return;
      const folder = makeFolder(t);
      await runCli(["token", "create", "docs", "--scope", "write", "--scope", "read"], {
        cwd: folder,
      }).then(({ stdout }) => writeFileSync(path.join(folder, "token"), stdout));
      const token = readFileSync(path.join(folder, "token"), "utf8").trim();
      const server = await startServer(t, [], { cwd: folder });
      const port = await freePort();
      const [program, ...args] = startProxy(folder, port, server.port);
      const env = { ...process.env, HOME: folder };
      const proxy = spawn(program, args, { stdio: "ignore", env });
      t.after(() => proxy.kill("SIGTERM"));
      const url = `http://127.0.0.1:${port}/plants`;
      const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
      await until(`${name} answers`, () =>
        fetch(url).then(
          () => true,
          () => false,
        ),
      );
      const create = (body: string) => fetch(url, { method: "POST", headers, body });
      const created = await create('{"id":1,"name":"a"}');
      assert.equal(await created.text(), '{"name":"a"}');
      assert.match(created.headers.get("X-Request-Id") ?? "", /^[0-9a-f-]{32,36}$/); // of the proxy
      const listed = await fetch(url, { headers: { ...headers, Accept: "application/x-ndjson" } });
      assert.equal(listed.headers.get("Content-Type"), "application/x-ndjson");
      assert.equal(await listed.text(), '{"id":1,"name":"a"}\n');
      const long = await create(JSON.stringify({ id: 2, name: "x".repeat(1.5 * 1024 * 1024) }));
      assert.equal(((await long.json()) as { error: number }).error, 41301);
      await server.stop();
      const refused = await create('{"id":1,"name":"a"}');
      assert.equal(refused.status, 503);
      assert.equal(((await refused.json()) as { error: number }).error, 50300);
    },
  );
}

test("the units of a second store differ from those of the first in its name alone", async (t) => {
  const folder = makeFolder(t);
  const [block = ""] = codeBlocks("docs/systemd.md", "Two stores on one machine", "sh");
  const [, script = ""] = /^sed -i ('[^']*')/m.exec(block) ?? [];
  const { stdout } = await runCli(["print", "systemd-unit"]);
  for (const program of ["/usr/local/bin/plant-store", "/opt/plant-store/plant-store"]) {
    const unit = stdout.replace(/^ExecStart=.*?( serve$| backup )/gm, `ExecStart=${program}$1`);
    writeFileSync(path.join(folder, "unit"), unit);
    const { status } = await runToEnd(["sh", "-c", `sed -i ${script} unit`], { cwd: folder });
    assert.equal(status, 0);
    const changed = readFileSync(path.join(folder, "unit"), "utf8");
    assert.equal(changed.split(program).length, 3);
    assert.ok(!changed.replaceAll(program, "").includes("plant-store"));
    const first = unit.replaceAll(program, "").replaceAll("plant-store", "orchids");
    assert.equal(changed.replaceAll(program, ""), first);
  }
});

test(
  "a copy that rsync makes beside a busy server, as the documentation says, can be restored",
  TIMEOUT,
  async (t) => {
    if (!canRun(t, "rsync", "--version")) return;
    const folder = makeFolder(t);
    const { port, token } = await serve(t, folder);
    const [script = ""] = codeBlocks("docs/operating.md", "A copy every minute", "sh");
    const here = script
      .replaceAll("vm:/var/lib/plant-store/", `${folder}/data/`)
      .replaceAll("/backup/copy/", `${folder}/copy/`);
    let [next, copies] = [0, 0];
    const create = async () => {
      while (copies < 5) {
        const { status } = await fetch(`http://127.0.0.1:${port}/plants`, {
          method: "POST",
          headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
          body: `{"id":${next++},"name":"${"x".repeat(500)}"}`,
        });
        assert.equal(status, 200);
      }
    };
    const copy = async () => {
      for (; copies < 5; copies++) {
        const { status, stderr } = await runToEnd(typed(here));
        assert.equal(status, 0, stderr);
      }
    };
    await Promise.all([create(), create(), create(), copy()]);
    const acknowledged = next;
    assert.equal((await runToEnd(typed(here))).status, 0);
    const { status, stdout, stderr } = await runCli(["restore", "copy", "--data", "new"], {
      cwd: folder,
    });
    assert.equal(status, 0, stderr);
    assert.ok(stdout.startsWith(`restored ${acknowledged} plants, `), stdout);
    const verified = await runCli(["verify", "--data", "new"], { cwd: folder });
    assert.match(verified.stdout, /checksum +matches/);
    const tokens = await runCli(["token", "list", "--data", "new"], { cwd: folder });
    assert.match(tokens.stdout, /^docs .* live /m);
  },
);

test("promtool accepts the configuration of Prometheus", async (t) => {
  if (!canRun(t, "promtool", "--version")) return;
  const [config = ""] = codeBlocks("docs/operating.md", "Prometheus and alerts", "yaml");
  const file = path.join(makeFolder(t), "prometheus.yml");
  writeFileSync(file, config);
  const { status, stdout, stderr } = await runToEnd(["promtool", "check", "config", file]);
  assert.equal(status, 0, stdout + stderr);
});

test("a log that logrotate has truncated continues at its beginning", TIMEOUT, async (t) => {
  const folder = makeFolder(t);
  assert.match(readPage("docs/plain-process.md"), /`2>> log\.jsonl`/);
  const [rules = ""] = codeBlocks("docs/plain-process.md", "Rotate the log", "text");
  assert.match(rules, /^ +copytruncate$/m);
  const file = path.join(folder, "log.jsonl");
  const script = `exec '${process.execPath}' '${PROGRAM}' serve --port 0 --data "$1" 2>> "$2"`;
  const child = spawn("bash", ["-c", script, "bash", path.join(folder, "data"), file], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  t.after(() => child.kill("SIGKILL"));
  await until("it has logged", () => existsAndHolds(file, "listening"));
  writeFileSync(file, "");
  child.kill("SIGTERM");
  await once(child, "close");
  assert.match(readFileSync(file, "utf8"), /^\{"time":"[^\n]*"event":"draining"/);
});

function existsAndHolds(file: string, text: string): boolean {
  try {
    return readFileSync(file, "utf8").includes(text);
  } catch {
    return false;
  }
}
