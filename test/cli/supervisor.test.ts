/** Socket activation: a parent holds a listening socket while servers start and stop. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { takeListeningSocket } from "../../src/cli/supervisor.ts";
import { createToken } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf, readyUrl } from "../support/messages.ts";
import { postPlant } from "../support/post.ts";
import { PROGRAM } from "../support/program.ts";
import { moduleArgs, runToEnd } from "../support/run.ts";
import { readLog } from "../support/stores.ts";
import { collectWarnings, TIMEOUT, until } from "../support/watch.ts";

/** How often the client of a restart connects. */
const CONNECT_EVERY_MS = 5;

/** Starts the program for every line it reads, as systemd would, and prints its pid and how it ended. */
const HOLDER = `while read -r fds; do
  sh -c 'export LISTEN_FDS="$0" LISTEN_PID=$$ LISTEN_FDNAMES=plant-store.socket; exec "$@"' "$fds" "$@" &
  echo "pid $!"; wait $!; echo "ended $?"
done`;

/** Not documented by Node. */
function descriptorOf(socket: net.Server): number {
  return (socket as unknown as { _handle: { fd: number } })._handle.fd;
}

/** A parent process that passes a listening socket to its children as descriptor 3. */
class Holder {
  readonly port: number;
  readonly #process: ChildProcess;
  #output = "";

  private constructor(process: ChildProcess, port: number) {
    this.#process = process;
    this.port = port;
    process.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#output += text;
    });
    process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#output += text;
    });
  }

  static async start(t: TestContext, args: readonly string[]): Promise<Holder> {
    const socket = net.createServer().listen(0, "127.0.0.1");
    await once(socket, "listening");
    const words = ["-c", HOLDER, "holder", process.execPath, PROGRAM, ...args];
    const child = spawn("sh", words, {
      stdio: ["pipe", "pipe", "pipe", descriptorOf(socket)],
    });
    const holder = new Holder(child, (socket.address() as AddressInfo).port);
    t.after(() => {
      const pid = holder.pid;
      if (pid !== undefined) process.kill(pid, "SIGKILL");
      child.kill("SIGKILL");
    });
    socket.close(); // from now on only the child holds it
    await once(socket, "close");
    return holder;
  }

  /** The process id of the server; `undefined` after its end. */
  get pid(): number | undefined {
    const last = this.#output.match(/^(pid|ended) \d+$/gm)?.at(-1);
    return last?.startsWith("pid ") ? Number(last.slice(4)) : undefined;
  }

  get output(): string {
    return this.#output;
  }

  begin(fds = 1): void {
    this.#process.stdin?.write(`${fds}\n`);
  }

  async ready(times = 1): Promise<void> {
    const line = /"event":"listening"/g; // once on standard output, and once in the log
    await until(`ready ${times} times`, () => this.#output.match(line)?.length === 2 * times);
  }

  /** Sends a signal to the server, and resolves with its status when it has ended. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number> {
    const ends = this.#output.match(/^ended \d+$/gm)?.length ?? 0;
    if (this.pid !== undefined) process.kill(this.pid, signal);
    return this.ended(ends + 1);
  }

  async ended(times: number): Promise<number> {
    const all = () => this.#output.match(/^ended \d+$/gm) ?? [];
    await until(`ended ${times} times`, () => all().length === times);
    return Number(all().at(-1)?.slice(6));
  }
}

/** Creates one plant on a connection of its own, and returns the outcome. */
async function create(port: number, token: string, id: number): Promise<string> {
  try {
    const client = await Client.connect(port);
    await client.send(encodeRequest({ token }, { body: `{"id":${id},"name":"Fern"}` }));
    const { status } = await client.next();
    client.destroy();
    return String(status);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
  }
}

function setVariables(t: TestContext, variables: Readonly<Record<string, string>>): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  Object.assign(process.env, variables);
}

describe("a server that was given its socket", TIMEOUT, () => {
  test("over restarts, a client that connects every 5 ms is always answered, and nothing is lost", async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const holder = await Holder.start(t, ["serve", "--data", folder]);
    holder.begin();
    await holder.ready();

    const results: Promise<string>[] = [];
    const timer = setInterval(() => {
      results.push(create(holder.port, token, results.length));
    }, CONNECT_EVERY_MS);
    t.after(() => clearInterval(timer));
    const served = (count: number) => until(`${count} requests`, () => results.length > count);
    await served(50);
    for (const restart of [1, 2]) {
      assert.equal(await holder.end(), 0);
      const begun = results.length;
      holder.begin();
      await holder.ready(restart + 1);
      await served(begun + 50);
    }
    clearInterval(timer);
    const outcomes = await Promise.all(results);
    assert.deepEqual(new Set(outcomes), new Set(["200"]));
    assert.equal(await holder.end(), 0);
    const lines = readLog(folder).trimEnd().split("\n").sort();
    assert.deepEqual(lines, outcomes.map((_, id) => `{"id":${id},"name":"Fern"}`).sort());
  });

  test("reports where it listens, and warns that --host and --port do not count", async (t) => {
    const folder = makeFolder(t);
    const args = ["serve", "--data", folder, "--host=192.0.2.1", "--port=1"];
    const holder = await Holder.start(t, args);
    holder.begin();
    await holder.ready();
    assert.equal(readyUrl(holder.output), `http://127.0.0.1:${holder.port}`);
    assert.equal((await postPlant(`http://127.0.0.1:${holder.port}`, "", "{}")).status, 401);
    assert.match(holder.output, /"level":"warn".*--host and --port/);
  });

  const HOST = { name: "host", value: "::1", text: "::1" };
  for (const [source, warns] of [
    ["default", false],
    ["PLANT_STORE_HOST", true],
  ] as const) {
    test(`${warns ? "warns" : "does not warn"} about a host from: ${source}`, (t) => {
      setVariables(t, { LISTEN_PID: String(process.pid), LISTEN_FDS: "1" });
      const warnings = collectWarnings(t, source);
      takeListeningSocket([{ ...HOST, source }]);
      assert.equal(warnings.length, warns ? 1 : 0);
    });
  }

  test("refuses several sockets: status 2", async (t) => {
    const holder = await Holder.start(t, ["serve", "--data", makeFolder(t)]);
    holder.begin(2);
    assert.equal(await holder.ended(1), 2);
  });

  test("refuses a descriptor that is no socket: status 1 and one line", async (t) => {
    const words = ["sh", "-c", 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@" 3</dev/null', "sh"];
    const [program = "", ...args] = [...words, process.execPath, PROGRAM, "serve"];
    const end = spawnSync(program, [...args, "--data", makeFolder(t)], { encoding: "utf8" });
    assert.deepEqual([end.status, end.stdout, messagesOf(end.stderr).length], [1, "", 1]);
  });

  for (const [fds, held] of [
    ["", undefined],
    ["0", undefined],
    ["1", 3],
  ] as const) {
    test(`finds ${held ?? "no descriptor"} if LISTEN_FDS is "${fds}"`, (t) => {
      setVariables(t, { LISTEN_PID: String(process.pid), LISTEN_FDS: fds });
      assert.equal(takeListeningSocket([]), held);
      assert.equal(process.env.LISTEN_FDS, undefined);
    });
  }

  test("ignores sockets that were meant for another process", async (t) => {
    const env = { LISTEN_PID: "1", LISTEN_FDS: "1", PLANT_STORE_HOST: "192.0.2.1" };
    const end = await runCli(["serve", "--port=0", "--data", makeFolder(t)], { env });
    assert.match(end.stderr, /192\.0\.2\.1/);
  });

  const [program = "", ...version] = ["systemd-socket-activate", "--version"];
  const skip = spawnSync(program, version).status === 0 ? false : `needs ${program}`;
  test("serves the client whose connection started it, under systemd's own tool", {
    skip,
  }, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const free = net.createServer().listen(0, "127.0.0.1");
    await once(free, "listening");
    const { port } = free.address() as AddressInfo;
    free.close();
    await once(free, "close");
    const serve = [process.execPath, PROGRAM, "serve", "--data", folder];
    const child = spawn(program, [`--listen=127.0.0.1:${port}`, ...serve], { stdio: "pipe" });
    t.after(() => child.kill("SIGKILL"));
    await until("the tool listens", async () => {
      return (await create(port, token, 1)) === "200";
    });
    assert.equal(readLog(folder), '{"id":1,"name":"Fern"}\n');
    const ended = once(child, "close");
    child.kill("SIGTERM"); // the tool has become the server
    assert.deepEqual(await ended, [0, null]);
  });
});

for (const event of ["start", "npx", "prod"]) {
  test(`under npm (${event}) a SIGTERM that comes twice is one`, async () => {
    const words = moduleArgs(`
      import { stopSignal } from "${new URL("../../src/cli/supervisor.ts", import.meta.url)}";
      const stop = stopSignal();
      for (const signal of ["SIGTERM", "SIGTERM"]) process.emit(signal, signal);
      process.stdout.write(String(stop.aborted));
      setTimeout(() => process.exit(7));`);
    const env = { ...process.env, npm_lifecycle_event: event };
    const { status, signal, stdout } = await runToEnd([process.execPath, ...words], { env });
    assert.deepEqual([status, signal, stdout], [7, null, "true"]);
  });
}

test("the data directory is the state directory of the supervisor, unless another is named", async (t) => {
  const [state, named] = [makeFolder(t), makeFolder(t)];
  const env = { STATE_DIRECTORY: `${state}:/var/lib/another` };
  const cwd = makeFolder(t);
  await runCli(["token", "create", "a"], { env, cwd });
  await runCli(["token", "create", "b", "--data", named], { env, cwd });
  await runCli(["token", "create", "c"], { env: { ...env, PLANT_STORE_DATA: named }, cwd });
  const names = async (data: string) =>
    (await runCli(["token", "list", "--json", "--data", data])).stdout.match(/"name":"."/g);
  assert.deepEqual(await names(join(state, ".")), ['"name":"a"']);
  assert.deepEqual(await names(named), ['"name":"b"', '"name":"c"']);
});
