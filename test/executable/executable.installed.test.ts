/** The executable of a fresh clone, alone: in an empty root with the libraries that it names, and without Node. */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { imageVariables } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { readyUrl } from "../support/messages.ts";
import { ROOT } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { finish, runToEnd } from "../support/run.ts";
import { installTools } from "./build.ts";

const FERN = '{"id":9007199254740993,"name":"Fern"}';
/** A user without a name or a home, as services have. */
const USER = 65_532;
const HOME = "/home/nonroot";

/** Why it cannot be built or run here; `false` if it can. */
function findHindrance(): string | false {
  if (process.platform !== "linux") return "needs Linux";
  if (spawnSync("chroot", ["/", "true"]).status !== 0) return "needs chroot, not permitted here";
  try {
    installTools(process.execPath);
    return false;
  } catch {
    return "needs postject, which could not be installed";
  }
}

/** Makes a root with a program, the libraries that `ldd` names, and the empty home of the image. */
function furnish(root: string, program: string): void {
  chmodSync(root, 0o755);
  copyFileSync(program, join(root, "plant-store"));
  const libraries = execFileSync("ldd", [program], { encoding: "utf8" });
  for (const [, library = ""] of libraries.matchAll(/(\/\S+) \(0x/g)) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
  mkdirSync(join(root, dirname(HOME)), { mode: 0o755 });
  mkdirSync(join(root, HOME), { mode: 0o700 });
  chownSync(join(root, HOME), USER, USER);
}

/** Carries out the steps of the Dockerfile's first stage with the files that it copies; returns the executable. */
async function build(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  const [stage = ""] = readFileSync(join(ROOT, "docs/deploy/Dockerfile"), "utf8").split(
    /^FROM gcr/m,
  );
  const copied = Array.from(stage.matchAll(/^COPY (.*) \S+$/gm), ([, names = ""]) => names);
  const paths = copied.join(" ").split(" ");
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...paths];
  const files = execFileSync("git", list, { cwd: ROOT, encoding: "utf8" }).split("\0").slice(0, -1);
  for (const file of files.filter((each) => existsSync(join(ROOT, each)))) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    copyFileSync(join(ROOT, file), join(folder, file));
  }
  const [, commands = ""] = /^RUN (.*)$/m.exec(stage) ?? [];
  const { status, stderr } = await runToEnd(["sh", "-c", commands], { cwd: folder });
  assert.equal(status, 0, stderr);
  return join(folder, "dist/plant-store");
}

const SETTINGS = { skip: findHindrance(), timeout: 300_000 };

test("the executable that the image has runs alone in an empty root", SETTINGS, async (t) => {
  const program = await build(t);
  const root = makeFolder(t);
  furnish(root, program);

  function spawnThere(...words: string[]): ChildProcess {
    const user = `--userspec=${USER}:${USER}`;
    return spawn("chroot", [user, root, "/plant-store", ...words], {
      env: { ...imageVariables(HOME), PATH: process.env.PATH },
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  async function runThere(...words: string[]): Promise<string> {
    const { status, signal, stdout, stderr } = await finish(spawnThere(...words));
    assert.deepEqual([status, signal], [0, null], stderr);
    return stdout;
  }

  async function serveThere(): Promise<{ url: string; process: ChildProcess }> {
    const child = spawnThere("serve", "--host=127.0.0.1", "--port=0");
    t.after(() => child.kill("SIGKILL"));
    let log = "";
    const url = await new Promise<string>((resolve) => {
      child.stderr?.on("data", (text) => {
        log += text;
        const found = readyUrl(log);
        if (found !== undefined) resolve(found);
      });
    });
    return { url, process: child };
  }

  assert.equal(await runThere("--version"), `${VERSION}\n`);
  const token = (await runThere("token", "create", "gardener")).trim();
  const first = await serveThere();
  assert.equal((await postPlant(first.url, token, FERN)).status, 200);
  assert.match(await runThere("health"), /is ready\n$/);
  const killed = once(first.process, "close");
  first.process.kill("SIGKILL");
  await killed;
  assert.equal(await runThere("export"), `${FERN}\n`);
  const second = await serveThere();
  assert.equal((await postPlant(second.url, token, FERN)).status, 200);
  const ended = once(second.process, "close");
  second.process.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  assert.deepEqual(readdirSync(root).sort(), ["home", "lib", "lib64", "plant-store"]);

  const unit = await runThere("print", "systemd-unit");
  assert.match(unit, /^ExecStart="\/plant-store" "serve"$/m);
  const database = ["export", "--database", "postgresql://plants@127.0.0.1:1/garden"];
  const { stderr } = await finish(spawnThere(...database));
  assert.match(stderr, /ECONNREFUSED/, "it has a driver");
  const text = readFileSync(program, "latin1");
  for (const name of ["plant-store", "pg", "pg-types", "pgpass", "split2"]) {
    assert.match(text, new RegExp(`^${name} \\d+\\.\\d+\\.\\d+\n\n[^]{0,400}copyright`, "im"));
  }
});
