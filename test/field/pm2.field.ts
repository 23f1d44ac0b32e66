/** The real pm2: after a stop no server runs, and after a reload one listens. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { before, type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { postPlant } from "../support/post.ts";
import { freePort } from "../support/serve.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const PM2 = path.join(ROOT, "test/field/node_modules/.bin/pm2");
const MAIN = path.join(ROOT, "dist/cli/main.js");

interface Pm2Process {
  readonly pid: number;
  readonly pm2_env: { readonly status: string; readonly restart_time: number };
}

/** A pm2 for this test only, whose daemon ends with the test. */
class Pm2 {
  readonly #home: string;

  constructor(t: TestContext) {
    t.after(() => this.run("kill")); // before its folder is removed
    this.#home = makeFolder(t);
  }

  run(...words: readonly string[]): string {
    const env = { ...process.env, PM2_HOME: this.#home };
    const { status, stdout, stderr } = spawnSync(PM2, words, { env, encoding: "utf8" });
    assert.equal(status, 0, stdout + stderr);
    return stdout;
  }

  list(): Pm2Process[] {
    return JSON.parse(this.run("jlist").trim().split("\n").at(-1) ?? "");
  }

  /** The output of the daemon, and of the workers that share its standard error. */
  log(): string {
    return readFileSync(path.join(this.#home, "pm2.log"), "utf8");
  }
}

before(() => {
  assert.equal(spawnSync("npm", ["run", "-s", "build"], { cwd: ROOT, stdio: "inherit" }).status, 0);
});

async function answers(url: string): Promise<boolean> {
  return (await fetch(`${url}/plants`).catch(() => undefined))?.status === 401;
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

for (const mode of ["cluster", "fork"]) {
  test(
    `pm2 in ${mode} mode: reload leaves one server listening, and stop ends it`,
    TIMEOUT,
    async (t) => {
      const folder = makeFolder(t);
      const data = path.join(folder, "data");
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      const config = path.join(folder, "plants.config.json");
      const args = `serve --data ${data} --port ${port}`;
      const app = { name: "plants", script: MAIN, args, exec_mode: mode, instances: 1 };
      writeFileSync(config, JSON.stringify({ apps: [app] }));
      const pm2 = new Pm2(t);
      pm2.run("start", config);
      await until("it listens", () => answers(url));
      const token = await createToken(data, { name: "gardener" });
      const create = (id: number) => postPlant(url, token, `{"id":${id},"name":"a"}`);
      await until("the token is accepted", async () => (await create(1)).status === 200);
      const [before] = pm2.list();

      pm2.run("reload", "plants");
      await until("it listens again", () => answers(url));
      assert.equal((await create(2)).status, 200);
      const [after, ...others] = pm2.list();
      assert.deepEqual([after?.pm2_env.status, others], ["online", []], pm2.log());
      assert.notEqual(after?.pid, before?.pid);
      assert.equal(isThere(before?.pid ?? 0), false, "the one before has ended");

      pm2.run("stop", "plants");
      assert.equal(isThere(after?.pid ?? 0), false);
      assert.doesNotMatch(pm2.log(), /SIGKILL/, "pm2 had to kill nothing");
      assert.equal(readLog(data), '{"id":1,"name":"a"}\n{"id":2,"name":"a"}\n');
    },
  );
}
