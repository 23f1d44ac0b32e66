/** The executable alone: in an empty root with the libraries that it names, and without Node. */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
} from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { finish } from "../support/run.ts";
import { buildExecutable, installTools } from "./build.ts";

const FERN = '{"id":9007199254740993,"name":"Fern"}';
const TIMEOUT = { timeout: 120_000 };
/** A user without a name or a home, as services have. */
const USER = 65_532;

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

/** Makes a root with a program, the libraries that `ldd` names, and an empty folder /data. */
function furnish(root: string, program: string): void {
  copyFileSync(program, join(root, "plant-store"));
  const libraries = execFileSync("ldd", [program], { encoding: "utf8" });
  for (const [, library = ""] of libraries.matchAll(/(\/\S+) \(0x/g)) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
  mkdirSync(join(root, "data"), { mode: 0o700 });
  chownSync(join(root, "data"), USER, USER);
}

const SETTINGS = { skip: findHindrance(), ...TIMEOUT };

test(
  "the executable runs alone in an empty root, as a user without rights",
  SETTINGS,
  async (t) => {
    const program = join(makeFolder(t), "plant-store");
    await buildExecutable({ node: process.execPath, output: program });
    const root = makeFolder(t);
    chmodSync(root, 0o755);
    furnish(root, program);

    function spawnThere(...words: string[]): ChildProcess {
      const user = `--userspec=${USER}:${USER}`;
      return spawn("chroot", [user, root, "/plant-store", ...words], {
        env: { PLANT_STORE_DATA: "/data", PATH: process.env.PATH },
        stdio: ["ignore", "pipe", "pipe"],
      });
    }

    async function runThere(...words: string[]): Promise<string> {
      const { status, signal, stdout, stderr } = await finish(spawnThere(...words));
      assert.deepEqual([[status, signal], stderr], [[0, null], ""], words.join(" "));
      return stdout;
    }

    async function serveThere(t: TestContext): Promise<{ url: string; process: ChildProcess }> {
      const child = spawnThere("serve", "--port=0");
      t.after(() => child.kill("SIGKILL"));
      let stderr = "";
      child.stderr?.setEncoding("utf8").on("data", (text: string) => {
        stderr += text;
      });
      const first = Promise.race([
        once(child.stdout ?? child, "data"),
        once(child, "close").then(() => assert.fail(`it ended: ${stderr}`)),
      ]);
      const url = /listening on (\S+)/.exec(String(await first))?.[1] ?? "";
      return { url, process: child };
    }

    await t.test(
      "it creates a token, serves, stores a plant, survives kill -9, verifies",
      async (t) => {
        assert.equal(await runThere("--version"), `${VERSION}\n`);
        const token = (await runThere("token", "create", "gardener")).trim();
        const first = await serveThere(t);
        assert.equal((await postPlant(first.url, token, FERN)).status, 200);
        assert.equal(await runThere("health", "--url", first.url), `${first.url} answers\n`);
        const killed = once(first.process, "close");
        first.process.kill("SIGKILL");
        assert.deepEqual(await killed, [null, "SIGKILL"]);

        assert.match(await runThere("verify"), /^records +1$/m);
        assert.equal(await runThere("list"), `${FERN}\n`);
        const second = await serveThere(t);
        assert.equal((await postPlant(second.url, token, FERN)).status, 200);
        const ended = once(second.process, "close");
        second.process.kill("SIGTERM");
        assert.deepEqual(await ended, [0, null]);
        assert.match(await runThere("verify"), /^records +1$/m);
        assert.deepEqual(readdirSync(root).sort(), ["data", "lib", "lib64", "plant-store"]);
      },
    );

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
        assert.match(unit, new RegExp(`^ExecStart=${realpathSync(program)} serve$`, "m"));
      });
    }

    const [major = ""] = process.versions.node.split(".");
    const skip = Number(major) < 26 && "needs Node 26, which keeps flags in an executable";
    await t.test("its debugger is off before its first line", { skip }, async (t) => {
      const { process: server } = await serveThere(t);
      const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
      const blocked = BigInt(`0x${/^SigBlk:\t(.*)$/m.exec(status)?.[1]}`);
      assert.notEqual(blocked & (1n << BigInt(constants.signals.SIGUSR1 - 1)), 0n, status);
    });

    await t.test("it prints the unit that starts it, and its completion", async () => {
      assert.match(await runThere("print", "systemd-unit"), /^ExecStart=\/plant-store serve$/m);
      assert.match(await runThere("print", "completion", "bash"), /^complete .*-F /m);
    });
  },
);
