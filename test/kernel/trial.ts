/** A data directory, the processes that run on it, and the plants that they have acknowledged. */
import assert from "node:assert/strict";
import http from "node:http";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { createToken } from "../../src/index.ts";
import { messagesOf, type RunningServer, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { type Finished, runToEnd } from "../support/run.ts";
import { readLog } from "../support/stores.ts";

/** The line of a plant, which is also the body that creates it. */
export function plant(id: number, name = `Plant ${id}`): string {
  return `{"id":${id},"name":"${name}"}`;
}

/** A server, and a token that it accepts. */
export interface Target {
  readonly url: string;
  readonly token: string;
}

type Answer = { readonly status: number; readonly text: string };

/** Sends a create; status 0 if the connection ended before the answer was whole. */
export function post({ url, token }: Target, body: string): Promise<Answer> {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return new Promise((resolve) => {
    const fail = () => resolve({ status: 0, text: "" });
    const request = http.request(`${url}/plants`, { method: "POST", headers }, (response) => {
      const { statusCode: status = 0 } = response;
      text(response).then((text) => resolve({ status, text }), fail);
    });
    request.on("error", fail).end(body);
  });
}

/** How a process is run. */
export interface Under {
  /** The program under which it runs. */
  readonly wrapper?: readonly string[];
  readonly env?: Record<string, string>;
}

export class Trial {
  readonly t: TestContext;
  readonly folder: string;
  /** The lines of the plants that have to be kept. */
  readonly acknowledged = new Set<string>();
  /** Warnings and failures of processes that have ended. */
  readonly messages: string[] = [];
  /** How processes are run. */
  under: Under = {};
  token = "";
  /** The one that was started last. */
  server!: RunningServer;

  constructor(t: TestContext, folder = makeFolder(t)) {
    this.t = t;
    this.folder = folder;
  }

  get pid(): number {
    return this.server.process.pid ?? 0;
  }

  get target(): Target {
    return { url: this.server.url, token: this.token };
  }

  async createToken(name = "trial"): Promise<string> {
    this.token = await createToken(this.folder, { name });
    return this.token;
  }

  /** Starts a server. @param args options besides `--data`. */
  async start(args: readonly string[] = []): Promise<void> {
    if (this.token === "") await this.createToken();
    this.server = await startServer(this.t, ["--data", this.folder, ...args], this.under);
  }

  /** Creates a plant; returns 200, the `error` number of a failure, or 0 if there was no answer. */
  async create(line: string, token = this.token): Promise<number> {
    return this.account(line, await post({ ...this.target, token }, line));
  }

  /** Records the outcome of a create. */
  account(line: string, { status, text }: Answer): number {
    if (status !== 200) return status === 0 ? 0 : JSON.parse(text).error;
    assert.deepEqual(JSON.parse(text), { name: JSON.parse(line).name });
    this.acknowledged.add(line);
    return 200;
  }

  /** Runs a command to its end, and returns its status; kills it after some time. */
  async run(words: readonly string[], { wrapper = [], env = {} } = this.under, timeout = 20_000) {
    const program = [...wrapper, process.execPath, PROGRAM, ...words, "--data", this.folder];
    return this.#finish(await runToEnd(program, { env: { ...process.env, ...env }, timeout }));
  }

  /** Waits for the end of the server, after a signal if there is one. Returns its status. */
  async end(signal?: NodeJS.Signals): Promise<number | null> {
    return this.#finish(await (signal ? this.server.stop(signal) : this.server.ended));
  }

  #finish({ status, stderr }: Finished): number | null {
    this.messages.push(...messagesOf(stderr));
    return status;
  }

  /** Asserts that every acknowledged plant is in the log, once. */
  assertKept(): void {
    const log = `\n${readLog(this.folder)}`;
    const lost = [...this.acknowledged].filter((line) => log.split(`\n${line}\n`).length !== 2);
    assert.deepEqual(lost, []);
  }
}
