/**
 * Runs the rows of test/cases on a backend: one server for each setting, one connection as long as it stays open.
 *
 * After each row it checks what no row says: the response (test/contract/responses) and what was stored; after a
 * close also that the server responds on a new connection.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type RequestMessage, subscribe } from "../../src/index.ts";
import type { BackendName, Case, Send, ServerSetting } from "../cases/case.ts";
import { SERVERS } from "../cases/case.ts";
import { Client } from "../support/client.ts";
import { chunked, encodeRequest } from "../support/contract.ts";
import { HANG_MS, until } from "../support/watch.ts";
import { assertHeaders, assertResponse, type Got } from "./responses.ts";

/** A server of a backend, with its own store. */
export interface Running {
  readonly port: number;
  /** By the words of the rows: `write`, `read`, `both`, `expired`, `revoked`. */
  readonly tokens: Readonly<Record<string, string>>;
  /** The lines that were stored since the last call. */
  takeStored(): Promise<readonly string[]>;
  /** These lines come in any order. */
  readonly isUnordered?: boolean;
}

export interface Backend {
  readonly name: BackendName;
  /** Starts a server that is stopped when the test ends. */
  start(t: TestContext, setting: ServerSetting): Promise<Running>;
}

/** A row waited for a response that never came. Others would, too, so no more are sent. */
let hasHung = false;

/** A server none of whose rows can run is skipped. */
export function runContract(backend: Backend, cases: readonly Case[]): void {
  for (const [name, setting] of Object.entries<ServerSetting>(SERVERS)) {
    const all = cases.filter(({ on = "plain" }) => on === name);
    const reasonOf = ({ skip }: Case) => ({ ...skip, ...setting.skip })[backend.name];
    const rows = all.filter((row) => reasonOf(row) === undefined);
    const skip = rows.length === 0 && all[0] !== undefined && reasonOf(all[0]);
    if (all.length === 0) continue;
    test(`the contract on ${backend.name}: ${name}`, { skip: skip || false }, async (t) => {
      const trial = new Trial(await backend.start(t, setting), setting.basePath ?? "");
      t.after(() => trial.close());
      const failures: string[] = [];
      for (const row of rows) {
        if (hasHung) break;
        const begun = performance.now();
        await trial.check(row).catch((error) => failures.push(`${row.says}\n${error}`));
        hasHung ||= performance.now() - begun > HANG_MS;
      }
      if (rows.length < all.length) t.diagnostic(`${rows.length} of ${all.length} rows can run`);
      assert.ok(failures.length === 0, `${failures.length} rows fail: ${failures.join("\n\n")}`);
    });
  }
}

class Trial {
  readonly #server: Running;
  readonly #basePath: string;
  readonly #seen = new Set<string>();
  readonly #messages: RequestMessage[] = [];
  readonly #unsubscribe: () => void;
  #stored = new Set<string>();
  #client: Client | undefined;
  #row = 100_000;

  constructor(server: Running, basePath: string) {
    this.#server = server;
    this.#basePath = basePath;
    this.#unsubscribe = subscribe("plant-store:request", (message) => this.#messages.push(message));
  }

  close(): void {
    this.#client?.destroy();
    this.#unsubscribe();
  }

  async check(row: Case): Promise<void> {
    this.#row++;
    this.#messages.length = 0;
    try {
      const got = await this.#send(row);
      for (const each of got) this.#checkAnswer(each, row);
      await this.#checkRow(row, got.at(-1));
      const next = row.closes ? [await this.#checkClosed()] : [];
      await this.#checkStored(row, next);
    } catch (error) {
      this.#client?.destroy();
      await this.#serves(); // what was sent before is stored by now, and fails no later row
      for (const line of await this.#server.takeStored()) this.#stored.add(line);
      throw error;
    }
  }

  /** The words of this row, filled in. */
  #fill(text: string): string {
    return text.replace(/<(\d|write|read|both|expired|revoked)>/g, (_, word: string) => {
      return this.#server.tokens[word] ?? `${this.#row}${word}`;
    });
  }

  #encode(send: Send): Buffer {
    if (typeof send === "string") return Buffer.from(this.#fill(send), "latin1");
    const { method = "POST", body = method === "POST" ? "" : undefined, chunks, headers } = send;
    const toBytes = (part: string | Buffer) =>
      typeof part === "string" ? Buffer.from(this.#fill(part)) : part;
    const bytes = chunks === undefined ? toBytes(body ?? "") : chunked(...chunks.map(toBytes));
    const usual = {
      ...(method !== "POST" && { "Content-Type": undefined }),
      ...(body === undefined && { "Content-Length": undefined }),
      ...(chunks !== undefined && { "Transfer-Encoding": "chunked" }),
    };
    const parts = { ...send, body: bytes, headers: { ...usual, ...headers } };
    const whole = encodeRequest({ token: "<write>" }, parts);
    const head = whole.toString("latin1", 0, whole.length - bytes.length);
    return Buffer.concat([
      Buffer.from(this.#fill(head), "latin1"),
      ...(send.isHeadOnly === true ? [] : [bytes]),
    ]);
  }

  async #send(row: Case): Promise<Got[]> {
    this.#client ??= await Client.connect(this.#server.port);
    const client = this.#client;
    const sends = [row.send].flat() as readonly Send[];
    const gets = [row.gets].flat() as readonly number[];
    const bytes = sends.map((send) => this.#encode(send));
    const packets = row.how === "pipelined" ? [Buffer.concat(bytes)] : bytes;
    const got: Got[] = [];
    const next = async () => {
      const send = sends[got.length];
      const isHead = typeof send === "object" && send.method === "HEAD";
      const answer = await client.next(isHead);
      got.push({ answer, send, expected: gets[got.length] as number });
    };
    for (const packet of packets) {
      const whole = packet.subarray(0, packet.length - (row.lacks ?? 0));
      await client.send(...cutAt(whole, row.cut));
      if (row.how !== "pipelined" && got.length < gets.length) await next();
    }
    if (row.ends === true) client.halfClose();
    while (got.length < gets.length) await next();
    return got;
  }

  #checkAnswer(got: Got, row: Case): void {
    assertResponse(got, row, this.#basePath, Object.values(this.#server.tokens));
    const { answer, send } = got;
    const id = answer.headers.get("x-request-id");
    const isTheirs = typeof send === "object" && send.headers?.["X-Request-Id"] !== undefined;
    if (id === undefined || isTheirs) return;
    assert.ok(!this.#seen.has(id), "a request id of its own");
    this.#seen.add(id);
  }

  async #checkRow(row: Case, last: Got | undefined): Promise<void> {
    if (last === undefined) return;
    const { headers, text } = last.answer;
    const isAnnounced = row.closes === true;
    assert.equal(headers.get("connection") === "close", isAnnounced, "Connection: close");
    assertHeaders(headers, row.headers ?? {});
    if (row.body !== undefined) assert.equal(text, this.#fill(row.body));
    else if (last.expected === 200 && row.stores !== undefined) this.#checkPlant(row, last);
    if (row.message !== undefined) assert.match(JSON.parse(text).message, row.message);
    if (row.client !== undefined) {
      await until("the request is published", () => this.#messages.length > 0);
      const { client, requestId } = this.#messages.at(-1) ?? {};
      assert.deepEqual([client, requestId], [row.client, headers.get("x-request-id")]);
    }
  }

  /** The Plant of the last line that the row stores. */
  #checkPlant(row: Case, { answer }: Got): void {
    const line = [row.stores].flat().at(-1);
    if (line === undefined) return;
    const { id: _, ...plant } = JSON.parse(this.#fill(line));
    assert.deepEqual(JSON.parse(answer.text), plant);
  }

  /** Stores exactly what the row says, and after a close also the create that followed. */
  async #checkStored(row: Case, next: readonly string[]): Promise<void> {
    const lines = await this.#server.takeStored();
    const said = [row.stores ?? []].flat() as readonly string[];
    const expected = said.map((line) => this.#fill(line)).filter((line) => !this.#stored.has(line));
    for (const line of lines) this.#stored.add(line);
    const inOrder = (all: readonly string[]) =>
      this.#server.isUnordered === true ? [...all].sort() : all;
    assert.deepEqual(inOrder(lines), inOrder([...expected, ...next]));
  }

  /** Nothing else comes until the connection closes; then the server responds to a new one. */
  async #checkClosed(): Promise<string> {
    assert.deepEqual(await this.#client?.rest(), [], "the connection closes");
    return this.#serves();
  }

  /** Sends a create on a new connection, and returns its line. */
  async #serves(): Promise<string> {
    this.#client = await Client.connect(this.#server.port);
    const line = this.#fill('{"id":<0>,"name":"next"}');
    await this.#client.send(this.#encode({ target: `${this.#basePath}/plants`, body: line }));
    assert.equal((await this.#client.next()).text, '{"name":"next"}', "the server responds");
    return line;
  }
}

function cutAt(bytes: Buffer, cut: Case["cut"]): Buffer[] {
  if (cut === "everywhere") return Array.from(bytes, (byte) => Buffer.from([byte]));
  return cut === undefined || cut === 0 ? [bytes] : [bytes.subarray(0, -cut), bytes.subarray(-cut)];
}
