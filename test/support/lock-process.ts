/**
 * A process that takes and releases a directory lock on request, and the functions with which a test
 * starts it and sends requests.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { PlantStoreError } from "../../src/core/errors.ts";
import { type HeldLock, type LockOptions, locks } from "../../src/log/lock.ts";

/** The command that errors name for one of these processes. */
export const RIVAL_COMMAND = "rival";

type Order = { readonly acquire: string; readonly waitMs: number } | "release";

export class Rival {
  readonly process: ChildProcess;

  private constructor(child: ChildProcess) {
    this.process = child;
  }

  /** Starts a process; it is killed when the test ends. */
  static async start(t: TestContext): Promise<Rival> {
    const child = fork(fileURLToPath(import.meta.url), {
      execArgv: ["--import", import.meta.resolve("tsx")],
    });
    t.after(() => child.kill("SIGKILL"));
    await once(child, "message");
    return new Rival(child);
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** `won`, or the code of the error. */
  acquire(directory: string, waitMs = 0): Promise<string> {
    return this.#order({ acquire: directory, waitMs });
  }

  async release(): Promise<void> {
    await this.#order("release");
  }

  /** Kills the process, so that it releases nothing. */
  async kill(): Promise<void> {
    const exited = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await exited;
  }

  async #order(order: Order): Promise<string> {
    const answered = once(this.process, "message");
    this.process.send(order);
    const [answer] = await answered;
    return answer;
  }
}

/**
 * Waits until an acquire that waits for the lock of a folder was refused at least once: each attempt
 * listens on a temporary socket with another name.
 */
export async function seeAttempts(folder: string, waiting: Promise<unknown>): Promise<void> {
  const attempts = new Set<string>();
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  waiting.then(end, end);
  while (attempts.size < 2) {
    if (isOver) throw new Error("expected it to wait");
    for (const name of readdirSync(folder)) if (name.includes(".new-")) attempts.add(name);
    await new Promise(setImmediate);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) obey();

function obey(): void {
  let lock: HeldLock | undefined;
  process.on("message", async (order: Order) => {
    if (order === "release") {
      await lock?.close();
      process.send?.("released");
      return;
    }
    const options: LockOptions = { name: "lock", command: RIVAL_COMMAND, waitMs: order.waitMs };
    try {
      lock = await locks.acquire(order.acquire, options);
      process.send?.("won");
    } catch (error) {
      process.send?.(error instanceof PlantStoreError ? error.code : String(error));
    }
  });
  process.send?.("ready");
}
