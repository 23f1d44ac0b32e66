/** The completion scripts in interactive shells, into which the test types. */
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, type TestContext, test } from "node:test";
import { runCli } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { NEEDS_TERMINAL } from "../support/terminal.ts";
import { TIMEOUT } from "../support/watch.ts";

/** How each shell is started, and the lines that prepare it. */
const SHELLS = [
  { shell: "bash", args: "--norc --noprofile -i", setUp: [] },
  {
    shell: "zsh",
    args: "-f -i",
    setUp: ["autoload -Uz compinit", "compinit -u -D", "setopt noautoremoveslash"],
  },
] as const;

/** The text that is typed before the Tab key, and the command line that it becomes. */
const TYPED: readonly [typed: string, completed: string][] = [
  ["ser", "serve"],
  ["imp", "import"],
  ["tok", "token"],
  ["token cr", "token create"],
  ["token l", "token list"],
  ["print sys", "print systemd-unit"],
  ["serve --hea\t", "serve --header-"],
  ["serve --por", "serve --port"],
  ["serve --port 0 --drain-t", "serve --port 0 --drain-timeout-ms"],
  ["serve --first-token --tls-k", "serve --first-token --tls-key"],
  ["token create fern --exp", "token create fern --expires"],
  ["token create --expires 90d fern --sc", "token create --expires 90d fern --scope"],
  ["token create fern --scope re", "token create fern --scope read"],
  ["serve --tls-key pla", "serve --tls-key plants.jsonl"],
  ["backup gar", "backup garden/"],
  ["backup --into gar", "backup --into garden/"],
  ["backup --into garden --ke", "backup --into garden --keep"],
  ["print completion z", "print completion zsh"],
  ["print systemd-unit --unit so", "print systemd-unit --unit socket"],
  ["print systemd-unit --unit=ser", "print systemd-unit --unit=service"],
  ["import pla", "import plants.jsonl"],
  ["import --data gar", "import --data garden/"],
  ["serve --tls-cert=pla", "serve --tls-cert=plants.jsonl"],
  ["verify --js", "verify --json"],
  ["list --he", "list --help"],
  // There is nothing to complete.
  ["get x", "get x"],
  ["serve --port 80", "serve --port 80"],
  ["list --token", "list --token"],
];

/** Types lines into an interactive shell; returns the words of each completed line, with colons between them. */
async function typeInto(
  t: TestContext,
  { shell, args, setUp }: (typeof SHELLS)[number],
  lines: readonly string[],
): Promise<string[]> {
  const folder = makeFolder(t);
  mkdirSync(join(folder, "garden"));
  writeFileSync(join(folder, "plants.jsonl"), "");
  const script = join(makeFolder(t), "completion");
  writeFileSync(script, (await runCli(["print", "completion", shell])).stdout);
  const child = spawn("script", ["-qec", `${shell} ${args}`, "/dev/null"], {
    cwd: folder,
    env: { ...process.env, TERM: "dumb", HOME: folder, PS1: "", INPUTRC: "/dev/null" },
  });
  t.after(() => child.kill("SIGKILL"));
  let screen = "";
  let notify = () => {};
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
    notify();
  });
  /** Waits for a text on the screen: a key that is pressed while the shell is busy has another effect. */
  const shown = async (text: string) => {
    while (!screen.includes(text)) {
      await new Promise<void>((resolve) => {
        notify = resolve;
      });
    }
  };
  // The IFS that the user has set joins words with colons; a completion must neither use nor change it.
  const took = ["IFS=:", 'plant-store() { echo "took:<$*>"; }'];
  const start = [...setUp, ...took, `source '${script}'`];
  child.stdin.write(`${start.join("\n")}\necho read''y\n`);
  await shown("ready\r\n");
  for (const [at, line] of lines.entries()) {
    child.stdin.write(`plant-store ${line}\t\necho do''ne ${at}.\n`);
    await shown(`done ${at}.\r\n`);
  }
  child.stdin.end("exit\n");
  await once(child, "close");
  return [...screen.matchAll(/^took:<(.*)>\r$/gm)].map(([, words = ""]) => words);
}

for (const each of SHELLS) {
  const isMissing = spawnSync(each.shell, ["-c", "true"]).status !== 0;
  const skip = isMissing ? `needs ${each.shell}, not found here` : NEEDS_TERMINAL.skip;

  test(`${each.shell} completes commands, options and values`, { skip, ...TIMEOUT }, async (t) => {
    // Zsh offers no paths after an equals sign.
    const rows = TYPED.filter(([typed]) => each.shell === "bash" || !typed.includes("=pla"));
    const lines = rows.map(([typed]) => typed);
    const taken = await typeInto(t, each, lines);
    assert.deepEqual(
      taken,
      rows.map(([, completed]) => completed.replaceAll(" ", ":")),
    );
  });
}

describe("the script", () => {
  let script = "";
  before(async () => {
    script = (await runCli(["print", "completion", "bash"])).stdout;
  });

  /** The completions of the last word. */
  function ask(words: readonly string[]): string[] {
    const line = `${script}
      COMP_WORDS=(plant-store "$@") COMP_CWORD=$#
      _plant_store; echo "\${COMPREPLY[*]}"`;
    const text = execFileSync("bash", ["-c", line, "", ...words]);
    return text.toString().split(/\s+/).filter(Boolean);
  }

  for (const name of ["serve", "token create", "print systemd-unit", "export"]) {
    test(`holds every option that the help of ${name} shows`, async () => {
      const help = (await runCli([...name.split(" "), "--help"])).stdout;
      const options = [...help.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option);
      assert.ok(options.length > 0);
      assert.deepEqual(ask([...name.split(" "), "-"]), ["--help", ...options]);
    });
  }

  test("holds every command that the help shows", async () => {
    const help = (await runCli(["--help"])).stdout;
    const names = [...help.matchAll(/^ {2}([a-z]+(?: [a-z-]+)?)(?: [^ ]+)? {2,}/gm)].map(
      ([, name = ""]) => name,
    );
    assert.ok(names.includes("serve") && names.includes("token create"), names.join());
    for (const name of names) {
      const [head = "", ...tail] = name.split(" ");
      assert.ok(ask([""]).includes(head), name);
      for (const word of tail) assert.ok(ask([head, ""]).includes(word), name);
    }
  });

  test("offers no command after a complete command", () => {
    assert.deepEqual(ask(["get", ""]).includes("serve"), false);
    assert.deepEqual(ask(["print", "completion", ""]), ["bash", "zsh"]);
  });
});
