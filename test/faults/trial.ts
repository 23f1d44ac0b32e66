/**
 * A real server under a fault, with a record of the plants it has acknowledged, to compare with its
 * log afterwards.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { createToken } from "../../src/index.ts";
import { type RunningServer, runCli, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { assertError, encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { messagesOf } from "../support/messages.ts";
import { PROGRAM } from "../support/program.ts";
import type { RawAnswer } from "../support/raw.ts";
import type { Finished } from "../support/run.ts";
import { errorNumber } from "../support/service.ts";
import { readLog } from "../support/stores.ts";

/** The line of a plant, which is also the body that creates it. */
export function plant(id: number, name = `Plant ${id}`): string {
  return `{"id":${id},"name":"${name}"}`;
}

/** 200, or the `error` number of a failure. */
export type Outcome = number;

export interface End {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  /** All lines on standard error. */
  readonly messages: readonly string[];
}

export interface HeldCreate {
  readonly client: Client;
  /** Sends the rest and waits for the answer. */
  finish(): Promise<Outcome>;
}

export interface TrialOptions {
  /** The data directory; by default a new, empty one. */
  readonly folder?: string;
  /** An existing token, if no other can be created there. */
  readonly reuseToken?: string;
  /** Options of `serve` besides `--data`. */
  readonly args?: readonly string[];
  /** The program under which the server runs. */
  readonly wrapper?: readonly string[];
  readonly env?: Record<string, string>;
}

export class Trial {
  readonly folder: string;
  readonly token: string;
  readonly server: RunningServer;
  /** Settles when the server has ended by itself. */
  readonly ended: Promise<End>;
  /** The line of every plant that was answered 200, in the order of the answers. */
  readonly acknowledged: string[] = [];

  private constructor(folder: string, token: string, server: RunningServer) {
    this.folder = folder;
    this.token = token;
    this.server = server;
    this.ended = once(server.process, "close").then(([status, signal]) => ({
      status,
      signal,
      messages: messagesOf(server.stderr()),
    }));
  }

  static async start(t: TestContext, options: TrialOptions = {}): Promise<Trial> {
    const { folder = makeFolder(t), args = [], wrapper, env, reuseToken } = options;
    const name = `trial-${process.hrtime.bigint()}`;
    const token = reuseToken ?? (await createToken(folder, { name }));
    const server = await startServer(t, ["--data", folder, ...args], {
      ...(wrapper === undefined ? {} : { wrapper }),
      ...(env === undefined ? {} : { env }),
    });
    return new Trial(folder, token, server);
  }

  get pid(): number {
    return this.server.process.pid ?? 0;
  }

  /** Warnings and other messages so far. */
  get messages(): readonly string[] {
    return messagesOf(this.server.stderr());
  }

  /** Creates a plant over a connection of its own. */
  async create(id: number, name?: string): Promise<Outcome> {
    const client = await Client.connect(this.server.port);
    try {
      await client.send(encodeRequest(this, { body: plant(id, name) }));
      return this.account(plant(id, name), await client.next());
    } finally {
      client.destroy();
    }
  }

  /** Begins a create: the server gets the headers, and the body without its last byte. */
  async hold(id: number, name?: string): Promise<HeldCreate> {
    const line = plant(id, name);
    const client = await Client.connect(this.server.port);
    const request = encodeRequest(this, { headers: { Expect: "100-continue" }, body: line });
    await client.send(request.subarray(0, -Buffer.byteLength(line)));
    assert.equal((await client.next()).status, 100);
    await client.send(line.slice(0, -1));
    return {
      client,
      finish: async () => {
        await client.send(line.slice(-1));
        const outcome = this.account(line, await client.next());
        client.destroy();
        return outcome;
      },
    };
  }

  /** Creates plants at the same time. */
  createAll(ids: readonly number[], name?: string): Promise<Outcome[]> {
    return Promise.all(ids.map((id) => this.create(id, name)));
  }

  /** Records the outcome of a create, after checking the form of its answer. */
  account(line: string, answer: RawAnswer): Outcome {
    if (answer.status === 200) {
      assert.deepEqual(JSON.parse(answer.text), { name: JSON.parse(line).name });
      if (!this.acknowledged.includes(line)) this.acknowledged.push(line);
      return 200;
    }
    const error = errorNumber(answer);
    assertError(answer, error);
    if (answer.status === 503) assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    return error;
  }

  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<End> {
    void this.server.stop(signal);
    return this.ended;
  }
}

/** Runs a command of the program to its end, and returns its output. */
export async function runOn(folder: string, ...words: readonly string[]): Promise<Finished> {
  return runCli([...words, "--data", folder]);
}

/** Asserts a refusal: one line on standard error, status 1, and nothing on standard output. */
export function assertTurnedAway({ status, signal, stdout, stderr }: Finished): void {
  assert.deepEqual([status, signal, stdout], [1, null, ""], stderr);
  assert.equal(messagesOf(stderr).length, 1, stderr);
}

/** Asserts that every acknowledged plant is in the log of the folder, once. */
export function assertKept(folder: string, acknowledged: readonly string[]): void {
  const lines = readLog(folder).split("\n");
  const times = new Map<string, number>();
  for (const line of lines) times.set(line, (times.get(line) ?? 0) + 1);
  assert.deepEqual(
    acknowledged.filter((line) => times.get(line) !== 1),
    [],
  );
}

/** Asserts that the log of the folder has these lines and nothing else. */
export function assertLog(folder: string, lines: readonly string[]): void {
  assert.equal(readLog(folder), lines.map((line) => `${line}\n`).join(""));
}

/**
 * Starts another server on the folder, and checks that it has every acknowledged plant and accepts
 * new ones. Returns the output from before it was ready.
 */
export async function assertGoesOn(
  t: TestContext,
  folder: string,
  acknowledged: readonly string[],
): Promise<readonly string[]> {
  const next = await Trial.start(t, { folder });
  for (const line of acknowledged.slice(-20)) {
    const { id, name } = JSON.parse(line);
    assert.equal(await next.create(id, name), 200, line);
  }
  assertKept(folder, acknowledged); // the replays wrote nothing
  assert.equal(await next.create(4_000_000_000), 200);
  const { status, messages } = await next.stop();
  assert.equal(status, 0);
  assertKept(folder, [...acknowledged, ...next.acknowledged]);
  return messages;
}

/** Runs a start that must fail, asserts that it was never ready, and returns how it ended. */
export async function startRefused(
  t: TestContext,
  folder: string,
  { wrapper = [], env = {} }: Pick<TrialOptions, "wrapper" | "env"> = {},
): Promise<End> {
  const words = [...wrapper, process.execPath, PROGRAM, "serve", "--port", "0"];
  const [program = "", ...args] = [...words, "--data", folder];
  const child = spawn(program, args, { env: { ...process.env, ...env } });
  t.after(() => child.kill("SIGKILL"));
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdout.on("data", () => child.kill("SIGKILL")); // it became ready, which it must not
  const [status, signal] = await once(child, "close");
  return { status, signal, messages: messagesOf(stderr) };
}
