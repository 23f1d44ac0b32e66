/**
 * How far a request walks: the functions of `src` that a running server calls for it, and their files.
 *
 *   node --import tsx test/house/walks.ts           how many
 *   node --import tsx test/house/walks.ts create    which ones, file by file
 *
 * The server runs with `--log off`, and has one warm connection. Each walk is made several times, and a
 * function counts if it was called each time: what is done once a second, or by chance at that moment,
 * does not. Counted as V8 counts: a function of its own sets the fields of a class.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { createToken, revokeToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { readyUrl } from "../support/messages.ts";

/** A function that was called. */
export interface Called {
  /** Its path below `src`. */
  readonly file: string;
  readonly line: number;
  /** Empty if it has none. */
  readonly name: string;
  /** Where it begins in the text that the loader has made of the file. */
  readonly at: number;
}

/** `revocation`: from the look that finds it to the refusal of a create. */
export type Walk = "create" | "read" | "revocation";

export type Walks = Readonly<Record<Walk, readonly Called[]>>;

/** How often each walk is made. */
const REQUESTS = 5;
const REVOCATIONS = 2;
/** When so many looks at the tokens have begun, one has ended; if not, another token is revoked. */
const LOOKS = 2;
const TOKENS = 12;
/** Plants that the store has before: the index of an empty one grows with nearly every create. */
const PLANTS = 20_000;

/** Counts all walks, as often as it is told to. */
export async function countWalks(times: number): Promise<Walks[]> {
  const folder = mkdtempSync(join(tmpdir(), "plant-store-walks-"));
  const visitor = await Visitor.start(folder);
  try {
    await visitor.revoke(); // the first walks load and make what later ones find
    const walks: Walks[] = [];
    for (let n = 0; n < times; n++) {
      walks.push({
        create: await repeat(REQUESTS, () => visitor.create()),
        read: await repeat(REQUESTS, () => visitor.read()),
        revocation: await repeat(REVOCATIONS, () => visitor.revoke()),
      });
    }
    return walks;
  } finally {
    await visitor.leave();
    rmSync(folder, { recursive: true, force: true });
  }
}

export function filesOf(called: readonly Called[]): string[] {
  return [...new Set(called.map(({ file }) => file))];
}

/** The functions that are called each time. */
async function repeat(times: number, walk: () => Promise<Called[]>): Promise<Called[]> {
  let common = await walk();
  for (let n = 1; n < times; n++) {
    const called = new Set((await walk()).map(placeOf));
    common = common.filter((one) => called.has(placeOf(one)));
  }
  return common.sort((a, b) => a.file.localeCompare(b.file) || a.at - b.at);
}

function placeOf({ file, at }: Called): string {
  return `${file}:${at}`;
}

/** The one client of a server in a process of its own. */
class Visitor {
  readonly #folder: string;
  readonly #server: ChildProcess;
  readonly #client: Client;
  /** Live tokens, named by their numbers. */
  readonly #tokens: Map<number, string>;
  /** The newest plant, which the store has in memory. */
  #id = PLANTS;

  private constructor(
    folder: string,
    server: ChildProcess,
    client: Client,
    tokens: Map<number, string>,
  ) {
    this.#folder = folder;
    this.#server = server;
    this.#client = client;
    this.#tokens = tokens;
  }

  static async start(folder: string): Promise<Visitor> {
    const lines = Array.from({ length: PLANTS }, (_, at) => `{"id":${at + 1},"name":"Fern"}\n`);
    writeFileSync(join(folder, "plants.jsonl"), lines.join(""), { mode: 0o600 });
    const tokens = new Map<number, string>();
    for (let n = 0; n < TOKENS; n++) {
      tokens.set(n, await createToken(folder, { name: `${n}`, scopes: ["write", "read"] }));
    }
    const file = fileURLToPath(new URL("walk-server.ts", import.meta.url));
    const options = ["--port", "0", "--log", "off", "--data", folder];
    const words = ["--import", import.meta.resolve("tsx"), file, "serve", ...options];
    const server = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit", "ipc"] });
    const [ready] = await once(server.stdout as Readable, "data");
    const client = await Client.connect(Number(new URL(readyUrl(`${ready}`) ?? "").port));
    return new Visitor(folder, server, client, tokens);
  }

  async leave(): Promise<void> {
    this.#client.destroy();
    this.#server.kill();
    await once(this.#server, "exit");
  }

  async create(): Promise<Called[]> {
    await this.#sendCreate();
    await this.#takeCalled();
    await this.#sendCreate();
    return this.#takeCalled();
  }

  async read(): Promise<Called[]> {
    await this.#send(`GET /plants/${this.#id}`, "");
    await this.#takeCalled();
    await this.#send(`GET /plants/${this.#id}`, "");
    return this.#takeCalled();
  }

  async revoke(): Promise<Called[]> {
    const [name] = this.#tokens.keys();
    if (name === undefined) throw new Error("expected looks at the tokens to end sooner");
    await this.#sendCreate();
    await revokeToken(this.#folder, `${name}`);
    await this.#takeCalled();
    const looks = await this.#takeCalled(LOOKS);
    const status = await this.#sendCreate();
    const refusal = await this.#takeCalled();
    this.#tokens.delete(name);
    if (status !== 401) return this.revoke();
    const known = new Set(looks.map(placeOf));
    return [...looks, ...refusal.filter((one) => !known.has(placeOf(one)))];
  }

  /** The functions that were called since the last time, and while so many looks at the tokens began. */
  async #takeCalled(looks = 0): Promise<Called[]> {
    this.#server.send(looks);
    for (;;) {
      const [message] = await once(this.#server, "message");
      if (Array.isArray(message)) return message;
    }
  }

  #sendCreate(): Promise<number> {
    return this.#send("POST /plants", `{"id":${++this.#id},"name":"Fern","tag":"indoor"}`);
  }

  /** Sends a request with the first token; resolves with the status of the answer. */
  async #send(line: string, body: string): Promise<number> {
    const [token] = this.#tokens.values();
    const type = body === "" ? "" : "Content-Type: application/json\r\n";
    const length = body === "" ? "" : `Content-Length: ${body.length}\r\n`;
    const head = `${line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n${type}${length}`;
    await this.#client.send(`${head}\r\n${body}`);
    return (await this.#client.next()).status;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [walks] = await countWalks(1);
  for (const [walk, called] of Object.entries(walks ?? {})) {
    process.stdout.write(`${walk}: ${called.length} functions, ${filesOf(called).length} files\n`);
    if (walk !== process.argv[2]) continue;
    for (const { file, line, name } of called) {
      process.stdout.write(`  src/${file}:${line} ${name || "(no name)"}\n`);
    }
  }
}
