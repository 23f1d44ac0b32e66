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
  realpathSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { NEEDS_POSTGRES, SharedCluster } from "../postgres/stores.ts";
import { imageVariables } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { readyUrl } from "../support/messages.ts";
import { ROOT } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { finish, runToEnd } from "../support/run.ts";
import { installTools } from "./build.ts";

const FERN = '{"id":9007199254740993,"name":"Fern"}';
const TIMEOUT = { timeout: 300_000 };
const cluster = new SharedCluster();
/** A user without a name or a home, as services have. */
const USER = 65_532;
const HOME = "/home/nonroot";

/** Why it cannot be built or run here; `undefined` if it can. */
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

/** Runs commands in a folder that has only these files of the repository. */
async function runWith(
  t: TestContext,
  files: readonly string[],
  commands: string,
): Promise<string> {
  const folder = makeFolder(t);
  for (const file of files.filter((each) => existsSync(join(ROOT, each)))) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    copyFileSync(join(ROOT, file), join(folder, file));
  }
  const { status, stderr } = await runToEnd(["sh", "-c", commands], { cwd: folder });
  assert.equal(status, 0, stderr);
  return join(folder, "dist/plant-store");
}

/** What git has, or would add, below these paths. */
function filesOf(...paths: readonly string[]): string[] {
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...paths];
  return execFileSync("git", list, { cwd: ROOT, encoding: "utf8" }).split("\0").slice(0, -1);
}

/** The only warning about a database without a standby. */
const SYNC = /^[^\n]*synchronous_standby_names[^\n]*\n$/;

const SETTINGS = { skip: findHindrance(), ...TIMEOUT };

test(
  "the executable runs alone in an empty root, as a user without rights",
  SETTINGS,
  async (t) => {
    const program = await runWith(t, filesOf("."), "npm ci && npm run build:executable");
    const root = makeFolder(t);
    chmodSync(root, 0o755);
    furnish(root, program);

    /** The variables that a container is run with, besides those of the image. */
    let variables = {};

    function spawnThere(...words: string[]): ChildProcess {
      const user = `--userspec=${USER}:${USER}`;
      return spawn("chroot", [user, root, "/plant-store", ...words], {
        env: { ...imageVariables(HOME), ...variables, PATH: process.env.PATH },
        stdio: ["ignore", "pipe", "pipe"],
      });
    }

    /** Runs a command, which must succeed; its warnings must match. */
    async function runThere(words: readonly string[], warnings = /^$/): Promise<string> {
      const { status, signal, stdout, stderr } = await finish(spawnThere(...words));
      assert.deepEqual([status, signal], [0, null], stderr);
      assert.match(stderr, warnings, words.join(" "));
      return stdout;
    }

    async function serveThere(
      t: TestContext,
      ...words: string[]
    ): Promise<{ url: string; process: ChildProcess }> {
      const child = spawnThere("serve", "--host=127.0.0.1", "--port=0", ...words);
      t.after(() => child.kill("SIGKILL"));
      let stderr = "";
      child.stderr?.setEncoding("utf8").on("data", (text: string) => {
        stderr += text;
      });
      const first = Promise.race([
        once(child.stdout ?? child, "data"),
        once(child, "close").then(() => assert.fail(`it ended: ${stderr}`)),
      ]);
      const url = readyUrl(String(await first)) ?? "";
      return { url, process: child };
    }

    await t.test(
      "it creates a token, serves, stores a plant, survives kill -9, verifies",
      async (t) => {
        assert.equal(await runThere(["--version"]), `${VERSION}\n`);
        const token = (
          await runThere(
            ["token", "create", "gardener"],
            /^[^\n]*made the folder "\/home\/nonroot\/data"[^\n]*\n$/,
          )
        ).trim();
        const first = await serveThere(t);
        assert.equal((await postPlant(first.url, token, FERN)).status, 200);
        assert.match(await runThere(["health"]), /^http:\/\/127\.0\.0\.1:9180 is ready\n$/);
        const killed = once(first.process, "close");
        first.process.kill("SIGKILL");
        assert.deepEqual(await killed, [null, "SIGKILL"]);

        assert.match(await runThere(["verify"]), /^records +1$/m);
        assert.equal(await runThere(["export"]), `${FERN}\n`);
        const second = await serveThere(t);
        assert.equal((await postPlant(second.url, token, FERN)).status, 200);
        const ended = once(second.process, "close");
        second.process.kill("SIGTERM");
        assert.deepEqual(await ended, [0, null]);
        assert.match(await runThere(["verify"]), /^records +1$/m);
        assert.deepEqual(readdirSync(root).sort(), ["home", "lib", "lib64", "plant-store"]);
      },
    );

    await t.test(
      "it does the same over a database, with its own driver",
      NEEDS_POSTGRES,
      async (t) => {
        const { cluster: server, database, url } = await cluster.createStore();
        const owner = server.url(database);
        const token = (
          await runThere(["token", "create", "gardener", "--database", owner], SYNC)
        ).trim();
        variables = { PLANT_STORE_DATABASE: url };
        t.after(() => {
          variables = {};
        });
        const first = await serveThere(t);
        assert.equal((await postPlant(first.url, token, FERN)).status, 200);
        assert.equal(await runThere(["export"], SYNC), `${FERN}\n`);
        assert.match(await runThere(["health"]), /^http:\/\/127\.0\.0\.1:9180 is ready\n$/);
        const ended = once(first.process, "close");
        first.process.kill("SIGTERM");
        assert.deepEqual(await ended, [0, null]);
      },
    );

    await t.test("it holds the licences of everything that it contains", () => {
      const text = readFileSync(program, "latin1");
      for (const name of ["plant-store", "pg", "pg-types", "pgpass", "split2"]) {
        assert.match(text, new RegExp(`^${name} \\d+\\.\\d+\\.\\d+\n\n[^]{0,400}copyright`, "im"));
      }
    });

    const link = join(makeFolder(t), "plants");
    symlinkSync(program, link);
    const WAYS = {
      "by PATH": "plant-store",
      "by a link": link,
      "by a relative path": "./plant-store",
    };
    for (const [way, word] of Object.entries(WAYS)) {
      await t.test(`its unit names its real path, also if it was started ${way}`, () => {
        const folder = dirname(program);
        const options = { cwd: folder, env: { PATH: folder }, encoding: "utf8" } as const;
        const unit = execFileSync(word, ["print", "systemd-unit"], options);
        assert.match(unit, new RegExp(`^ExecStart="${realpathSync(program)}" "serve"$`, "m"));
      });
    }

    await t.test("it prints the unit that starts it", async () => {
      const unit = await runThere(["print", "systemd-unit"]);
      assert.match(unit, /^ExecStart="\/plant-store" "serve"$/m);
    });
  },
);

test("the steps of the Dockerfile build it with the driver", SETTINGS, async (t) => {
  const text = readFileSync(join(ROOT, "docs/Dockerfile"), "utf8");
  const [stage = ""] = text.split(/^FROM gcr/m);
  const copied = Array.from(stage.matchAll(/^COPY (.*) \S+$/gm), ([, names = ""]) =>
    names.split(" "),
  );
  const [, commands = ""] = /^RUN (.*)$/m.exec(stage) ?? [];
  const program = await runWith(t, filesOf(...copied.flat()), commands);
  const words = [program, "export", "--database", "postgresql://plants@127.0.0.1:1/garden"];
  const { status, stderr } = await runToEnd(words);
  assert.deepEqual([status, /ECONNREFUSED/.test(stderr)], [1, true], stderr);
});
