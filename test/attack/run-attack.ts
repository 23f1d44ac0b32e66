/**
 * Runs an attack on a server, and measures what other clients notice. The server has one core, the
 * attacker and the victims share another one, and all of them are in a network of their own.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, readFileSync } from "node:fs";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createToken } from "../../src/index.ts";
import { statusField } from "../faults/machine.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { runToEnd } from "../support/run.ts";
import { logPath, writeLog } from "../support/stores.ts";
import type { Attacked } from "./attacker.ts";
import { type Attack, SHORT_PLANTS, type Target, victimPlant } from "./attacks.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Fared } from "./victims.ts";

const BEFORE_MS = 1000;
const ANSWER_MS_MAX = 20_000;
const MEMORY_EVERY_MS = 100;
/** The last of the short plants are longer, so that a stream is longer than the buffers of a socket. */
const LONGER_PLANTS = 10_000;
const LONGER_NAME = "n".repeat(1000);

export interface Outcome {
  readonly fared: Fared;
  readonly attacked: Attacked | undefined;
  /** The most memory of the process, in bytes, and of its cgroup with the page cache. */
  readonly peakBytes: number;
  readonly cgroupPeakBytes: number | undefined;
  readonly oomKills: number;
  /** How the server ended before it was stopped. */
  readonly end: string | undefined;
  /** Acknowledged plants that are not in the log. */
  readonly lost: number;
  /** Whether the server starts again under the same limits. */
  readonly restarts: boolean;
  /** Whether `plant-store health` succeeded during the attack. */
  readonly isHealthy: boolean;
  readonly logBytes: number;
  /** How long the main thread waited for its core during the attack: others use it, too. */
  readonly waitedMs: number;
}

/** Reads the lines that a program prints. */
class Lines {
  #text = "";
  #notify = () => {};
  #isClosed = false;

  constructor(child: ChildProcess) {
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#text += text;
      this.#notify();
    });
    child.once("close", () => {
      this.#isClosed = true;
      this.#notify();
    });
  }

  /** The next line; `undefined` if there is none before the deadline or the end of the program. */
  async next(timeoutMs = ANSWER_MS_MAX): Promise<string | undefined> {
    const deadline = performance.now() + timeoutMs;
    let end = this.#text.indexOf("\n");
    while (end < 0 && !this.#isClosed && performance.now() < deadline) {
      const changed = new Promise<void>((resolve) => {
        this.#notify = resolve;
      });
      await Promise.race([
        changed,
        sleep(Math.max(1, deadline - performance.now()), undefined, { ref: false }),
      ]);
      end = this.#text.indexOf("\n");
    }
    if (end < 0) return undefined;
    const line = this.#text.slice(0, end);
    this.#text = this.#text.slice(end + 1);
    return line;
  }
}

interface Server {
  readonly child: ChildProcess;
  readonly port: number;
  readonly memory: { peakBytes: number };
  logBytes(): number;
  /** How it ended, if it has, and why Node says so. */
  end(): string | undefined;
  /** Ends it, so that only what is on disk counts. */
  kill(): Promise<void>;
}

/** Starts a server; `undefined` if it does not become ready. */
async function startServer(
  t: TestContext,
  sandbox: Sandbox,
  args: readonly string[],
): Promise<Server | undefined> {
  const [program = "", ...words] = [...sandbox.serverWords, sandbox.node, PROGRAM, "serve"];
  const env = { ...process.env, npm_lifecycle_event: undefined, ...sandbox.env };
  const child = spawn(program, [...words, ...args], { env });
  t.after(() => child.kill("SIGKILL"));
  let logBytes = 0;
  let cause = "";
  child.stderr.on("data", (chunk: Buffer) => {
    logBytes += chunk.length;
    cause ||= /FATAL ERROR: .*/.exec(chunk.toString("latin1"))?.[0] ?? "";
  });
  let end: string | undefined;
  const closed = once(child, "close").then(([status, signal]) => {
    end = `${signal ?? `status ${status}`} ${cause}`.trim();
  });
  const ready = await new Lines(child).next();
  const port = /"event":"listening".*"url":"[^"]+:(\d+)"/.exec(ready ?? "")?.[1];
  if (port === undefined) {
    child.kill("SIGKILL");
    return undefined;
  }
  const memory = { peakBytes: 0 };
  const look = setInterval(() => {
    const kib = Number.parseInt(statusFieldOf(child.pid), 10);
    memory.peakBytes = Math.max(memory.peakBytes, kib * 1024 || 0);
  }, MEMORY_EVERY_MS);
  void closed.then(() => clearInterval(look));
  return {
    child,
    port: Number(port),
    memory,
    logBytes: () => logBytes,
    end: () => end,
    kill: async () => {
      child.kill("SIGKILL");
      await closed;
    },
  };
}

function statusFieldOf(pid = 0): string {
  try {
    return statusField(pid, "VmHWM");
  } catch {
    return ""; // it has ended
  }
}

/** How long the main thread of a process has waited for a core, in milliseconds. */
function waitedMs(pid = 0): number {
  try {
    const [, nanoseconds] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
    return Number(nanoseconds) / 1e6;
  } catch {
    return Number.NaN; // it has ended
  }
}

function startProgram(
  t: TestContext,
  words: readonly string[],
  file: string,
  args: readonly string[],
): { child: ChildProcess; lines: Lines } {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const loader = ["--import", import.meta.resolve("tsx")];
  const [program = "", ...rest] = [...words, process.execPath, ...loader, path, ...args];
  const child = spawn(program, rest, { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin?.on("error", () => {}); // it has ended
  t.after(() => child.kill("SIGKILL"));
  return { child, lines: new Lines(child) };
}

/** Makes a folder with plants to read, and the tokens of the clients. */
async function prepareFolder(t: TestContext) {
  const folder = makeFolder(t);
  const lines = Array.from({ length: SHORT_PLANTS }, (_, id) => {
    const name = id < SHORT_PLANTS - LONGER_PLANTS ? "Fern" : LONGER_NAME;
    return `{"id":${id},"name":"${name}"}\n`;
  });
  writeLog(folder, lines.join(""));
  const token = (name: string, scope: "read" | "write") =>
    createToken(folder, { name, scopes: [scope] });
  return {
    folder,
    attacker: {
      writer: await token("attacker-w", "write"),
      reader: await token("attacker-r", "read"),
    },
    victim: { writer: await token("victim-w", "write"), reader: await token("victim-r", "read") },
  };
}

/** Counts the acknowledged plants that are not in the log. */
async function countLost(folder: string, acknowledged: readonly string[]): Promise<number> {
  const missing = new Set(acknowledged.map((id) => `\n${victimPlant(id)}\n`));
  const end = `,"name":"victim"}\n`;
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(logPath(folder), { highWaterMark: 2 ** 20 })) {
    const bytes = Buffer.concat([rest, chunk]);
    for (let at = bytes.indexOf(end); at >= 0; at = bytes.indexOf(end, at + 1)) {
      missing.delete(bytes.toString("latin1", bytes.lastIndexOf("\n", at), at + end.length));
    }
    rest = bytes.subarray(-100);
  }
  return missing.size;
}

/** @throws Error if the server cannot be started, or if the victims cannot prepare it. */
export async function runAttack(
  t: TestContext,
  attack: Attack,
  sandbox: Sandbox,
  seconds: number,
): Promise<Outcome> {
  const { folder, attacker, victim } = await prepareFolder(t);
  const { adminPort } = sandbox;
  const admin = `127.0.0.1:${adminPort}`;
  const args = ["--data", folder, "--port", "0", "--admin", admin, ...sandbox.serverArgs];
  const server = await startServer(t, sandbox, args);
  if (server === undefined) throw new Error("the server did not start");
  const { port, memory } = server;
  const isTls = attack.isTls === true;
  const victims = startProgram(t, sandbox.clientWords, "victims.ts", [
    JSON.stringify({ pid: server.child.pid, port, adminPort, isTls, ...victim }),
  ]);
  const crowd = startProgram(t, sandbox.attackerWords, "attacker.ts", [attack.name]);
  const etags = await victims.lines.next();
  if (etags === undefined) throw new Error("the long plants are not stored");
  const target: Target = { port, adminPort, ...attacker, etags: JSON.parse(etags) };
  await crowd.lines.next();
  victims.child.stdin?.write("before\n");
  await sleep(BEFORE_MS);
  const logBefore = server.logBytes();
  const waitedBefore = waitedMs(server.child.pid);
  if (attack.answers === "never read") sandbox.narrow();
  victims.child.stdin?.write("during\n");
  crowd.child.stdin?.write(`${JSON.stringify(target)}\n`);
  await sleep(seconds * 500);
  const health = ["health", "--admin", admin];
  const healthWords = [...sandbox.clientWords, process.execPath, PROGRAM, ...health];
  const [{ status }] = await Promise.all([
    runToEnd(healthWords, { timeout: ANSWER_MS_MAX }),
    sleep(seconds * 500),
  ]);
  const waited = waitedMs(server.child.pid) - waitedBefore;
  crowd.child.stdin?.write("stop\n");
  const attacked = await crowd.lines.next(2000);
  crowd.child.kill("SIGKILL");
  victims.child.stdin?.write("after\n");
  const fared = await victims.lines.next(2 * ANSWER_MS_MAX);
  victims.child.kill("SIGKILL");
  if (fared === undefined) throw new Error("the victims did not end");
  const logBytes = server.logBytes() - logBefore;
  const end = server.end();
  const cgroupPeakBytes = sandbox.cgroup?.peakBytes();
  await server.kill();
  const again = await startServer(t, sandbox, args);
  await again?.kill();
  const { acknowledged } = JSON.parse(fared) as Fared;
  return {
    fared: JSON.parse(fared),
    attacked: attacked === undefined ? undefined : JSON.parse(attacked),
    peakBytes: memory.peakBytes,
    cgroupPeakBytes,
    oomKills: sandbox.cgroup?.kills() ?? 0,
    end,
    lost: await countLost(folder, acknowledged),
    restarts: again !== undefined,
    isHealthy: status === 0,
    logBytes,
    waitedMs: waited,
  };
}
