/**
 * SIGUSR1, by which Node opens its debugger to every user of the machine. Programs that rotate logs
 * send it, and so may whoever has become the user of the service.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { buildSync } from "esbuild";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { bundleOptions, PROGRAM } from "../support/program.ts";
import { finish } from "../support/run.ts";
import { until } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern"}';
/** A debugger would listen on a port of its own, so that tests can run at once. */
const ANY_PORT = { NODE_OPTIONS: "--inspect-port=0" };

/** How many TCP sockets of this process listen. */
function countListening(pid: number | undefined): number {
  const LISTEN = "0A";
  const inodes = ["tcp", "tcp6"].flatMap((kind) => {
    const rows = readFileSync(`/proc/net/${kind}`, "utf8").trim().split("\n").slice(1);
    return rows.flatMap((row) => {
      const [, , , state, , , , , , inode] = row.trim().split(/\s+/);
      return state === LISTEN ? [`socket:[${inode}]`] : [];
    });
  });
  const files = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return []; // closed meanwhile
    }
  });
  return files.filter((file) => inodes.includes(file)).length;
}

/** Sends the signal, and waits until the process has taken it from the kernel. */
async function signal(child: ChildProcess): Promise<void> {
  child.kill("SIGUSR1");
  const pending = /^(Sig|Shd)Pnd:\t(?!0+$)/m;
  await until("the signal is delivered", () => {
    return !pending.test(readFileSync(`/proc/${child.pid}/status`, "utf8"));
  });
}

test("SIGUSR1 opens the debugger of a Node that does not expect it", async (t) => {
  const script = 'process.stdin.once("data", () => process.exit()); console.log()';
  const child = spawn(process.execPath, ["-e", script], { env: { ...process.env, ...ANY_PORT } });
  t.after(() => child.kill("SIGKILL"));
  const finished = finish(child);
  await once(child.stdout, "data");
  assert.equal(countListening(child.pid), 0);
  await signal(child);
  await until("it listens", () => countListening(child.pid) === 1);
  child.stdin.end("\n");
  assert.match((await finished).stderr, /^Debugger listening/);
});

test("SIGUSR1 opens no debugger of a server, which goes on", async (t) => {
  const data = makeFolder(t);
  const token = await createToken(data, { name: "gardener" });
  const args = ["--data", data, "--log", "off"];
  const server = await startServer(t, args, { env: ANY_PORT });
  for (let round = 0; round < 3; round++) {
    await signal(server.process);
    assert.equal((await postPlant(server.url, token, FERN)).status, 200);
  }
  assert.equal(countListening(server.process.pid), 1);
  assert.deepEqual(await server.stop(), {
    status: 0,
    signal: null,
    stdout: server.stdout(),
    stderr: "",
  });
});

test("SIGUSR1 opens no debugger of a command, which ends as it would have", async (t) => {
  const words = ["import", "-", "--data", makeFolder(t)];
  const child = spawn(process.execPath, [PROGRAM, ...words], {
    env: { ...process.env, ...ANY_PORT },
  });
  t.after(() => child.kill("SIGKILL"));
  const finished = finish(child);
  child.stdin.write(`${FERN}\nrubbish\n`);
  await once(child.stderr, "data"); // it reads
  await signal(child);
  child.stdin.end(`${FERN.replace("1", "2")}\n`);
  const { status, stdout, stderr } = await finished;
  assert.deepEqual([status, stdout.split("\n").length, stderr.split("\n").length], [3, 2, 2]);
});

/**
 * The program as the package has it, in several files, where the first one imports a FIFO: a start
 * waits there until its content is written.
 */
function stopAtFirstImport(t: TestContext) {
  const { outfile: _, ...options } = bundleOptions();
  const folder = makeFolder(t);
  buildSync({ ...options, outdir: folder, splitting: true, outExtension: { ".js": ".mjs" } });
  const main = path.join(folder, "main.mjs");
  const [, imported = ""] =
    /\b(?:from|import)[ (]*"(\.\/[^"]+)"/.exec(readFileSync(main, "utf8")) ?? [];
  const fifo = path.join(folder, imported);
  const content = readFileSync(fifo);
  rmSync(fifo);
  execFileSync("mkfifo", [fifo]);
  return { main, fifo, content };
}

test("SIGUSR1 opens no debugger while the program is being loaded", async (t) => {
  const { main, fifo, content } = stopAtFirstImport(t);
  const child = spawn(process.execPath, [main, "--version"], {
    env: { ...process.env, ...ANY_PORT },
  });
  t.after(() => child.kill("SIGKILL"));
  const finished = finish(child);
  const file = await open(fifo, "w"); // once the program has opened it
  await signal(child);
  await file.writeFile(content);
  await file.close();
  const { status, stderr } = await finished;
  assert.deepEqual([status, stderr], [0, ""]);
});
