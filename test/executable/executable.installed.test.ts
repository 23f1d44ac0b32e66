/** The executable that the Dockerfile builds, in an empty folder with the variables of the image and nothing else. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { postPlant } from "../support/service.ts";
import { installTools } from "./build.ts";

const FERN = '{"id":9007199254740993,"name":"Fern"}';
const DOCKERFILE = readFileSync(join(ROOT, "docs/deploy/Dockerfile"), "utf8");
/** Why it cannot be built here; `false` if it can. */
function findHindrance(): string | false {
  try {
    installTools();
    return process.platform === "linux" ? false : "needs Linux";
  } catch {
    return "needs postject, which could not be installed";
  }
}

/** Carries out the steps of the first stage with the files that it copies; returns the executable. */
async function build(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  const [stage = ""] = DOCKERFILE.split(/^FROM gcr/m);
  const copied = Array.from(stage.matchAll(/^COPY (.*) \S+$/gm), ([, names = ""]) => names);
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
  const words = [...list, ...copied.join(" ").split(" ")];
  const files = execFileSync("git", words, { cwd: ROOT, encoding: "utf8" }).split("\0");
  for (const file of files.filter((each) => each !== "" && existsSync(join(ROOT, each)))) {
    cpSync(join(ROOT, file), join(folder, file));
  }
  const [, commands = ""] = /^RUN (.*)$/m.exec(stage) ?? [];
  const { status, stderr } = await runToEnd(["sh", "-c", commands], { cwd: folder });
  assert.equal(status, 0, stderr);
  return join(folder, "dist/plant-store");
}

/** The variables of the image, with another home; of flags only if this Node knows them. */
function variablesOf(home: string): Record<string, string> {
  const [, block = ""] = /^ENV ((?:.*\\\n)*.*)$/m.exec(DOCKERFILE) ?? [];
  const pairs = block.replaceAll("/home/nonroot", home).matchAll(/(\w+)=(\S+)/g);
  const { NODE_OPTIONS = "", ...others } = Object.fromEntries(
    Array.from(pairs, ([, name = "", value = ""]) => [name, value]),
  );
  const isKnown = process.allowedNodeEnvironmentFlags.has(NODE_OPTIONS.replace(/=.*/, ""));
  return { ...others, NODE_OPTIONS: isKnown ? NODE_OPTIONS : "" };
}

const SETTINGS = { skip: findHindrance(), timeout: 300_000 };

test("the executable of the image runs alone", SETTINGS, async (t) => {
  const program = await build(t);
  const home = makeFolder(t);
  const env = { ...variablesOf(home), PATH: "", PLANT_STORE_HOST: "127.0.0.1" };
  const run = async (...words: string[]) => {
    const { status, stdout, stderr } = await runToEnd([program, ...words], { cwd: home, env });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  assert.equal(await run("--version"), `${VERSION}\n`);
  const token = (await run("token", "create", "gardener")).trim();
  const settings = { program, env: { ...env, PLANT_STORE_ADMIN: "127.0.0.1:0" }, cwd: home };
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    const server = await startServer(t, [], settings);
    assert.equal((await postPlant(server.url, token, FERN)).status, 200);
    assert.equal((await server.stop(signal)).status, signal === "SIGTERM" ? 0 : null);
  }
  assert.equal(await run("export"), `${FERN}\n`);
  assert.match(await run("print", "systemd-unit"), /^ExecStart="\S*\/plant-store" serve$/m);
  const database = ["export", "--database", "postgresql://plants@127.0.0.1:1/garden"];
  const { stderr } = await runToEnd([program, ...database], { cwd: home, env });
  assert.match(stderr, /ECONNREFUSED/, "it has a driver");

  const text = readFileSync(program, "latin1");
  for (const name of ["plant-store", "pg", "pg-types", "pgpass", "split2"]) {
    assert.match(text, new RegExp(`^${name} \\d+\\.\\d+\\.\\d+\n\n[^]{0,400}copyright`, "im"));
  }
});
