/**
 * What a request may cost, whatever its bytes are: the processor time of the server, for bodies of 1 MiB of
 * the worst contents, for reads of what they have stored, and for heads of 16 KiB. Medians; the tables are
 * in the output.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { encodeNewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { createToken, PlantStoreError } from "../../src/index.ts";
import { Trial } from "../faults/trial.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { until } from "../support/watch.ts";
import { type Content, worstContents } from "../support/worst-contents.ts";

const MIB = 2 ** 20;
const RUNS = 20;
/** To parse a body of 1 MiB and to encode its plant. */
const PARSE_MS_MAX = 20;
/** The same if the line has escapes that JSON does not demand, or for halves of surrogate pairs. */
const ESCAPES_MS_MAX = 45;
/** One request in one turn of the event loop. */
const HOLD_MS_MAX = 50;
const REQUEST_RUNS = 5;
const PATIENT = { timeout: 600_000 };

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Parses a body, and encodes its plant if it is one. */
function parseAndEncode({ body }: Content): string {
  try {
    return encodeNewPlant(parseNewPlant(body));
  } catch (error) {
    if (error instanceof PlantStoreError) return error.code;
    throw error;
  }
}

test("a body costs what its length costs to parse and encode, whatever it holds", PATIENT, (t) => {
  const late: string[] = [];
  for (const content of worstContents(MIB)) {
    const times = Array.from({ length: RUNS }, () => {
      const begun = processorMs();
      const line = parseAndEncode(content);
      assert.equal(line.startsWith("{"), content.isPlant, `${content.what}: ${line.slice(0, 60)}`);
      return processorMs() - begun;
    });
    const ms = median(times);
    t.diagnostic(`${ms.toFixed(1).padStart(6)} ms  ${content.what}`);
    if (ms > (content.hasMoreEscapes ? ESCAPES_MS_MAX : PARSE_MS_MAX)) late.push(content.what);
  }
  assert.deepEqual(late, []);
});

interface Cost {
  readonly status: number;
  /** Processor time of the server. */
  readonly ms: number;
  /** The longest time in which its event loop did nothing else. */
  readonly holdMs: number;
}

/** A server that measures itself. */
class Measured {
  readonly trial: Trial;
  readonly #file: string;
  #signals = 0;

  private constructor(trial: Trial, file: string) {
    this.trial = trial;
    this.#file = file;
  }

  static async start(t: TestContext): Promise<Measured> {
    const folder = makeFolder(t);
    const file = join(makeFolder(t), "loop");
    const reuseToken = await createToken(folder, { name: "both", scopes: ["read", "write"] });
    const probe = new URL("../support/loop-probe.mjs", import.meta.url);
    const env = { NODE_OPTIONS: `--import ${probe}`, LOOP_FILE: file };
    return new Measured(await Trial.start(t, { folder, reuseToken, env }), file);
  }

  async #look(): Promise<readonly [ms: number, holdMs: number]> {
    process.kill(this.trial.pid, "SIGUSR2");
    this.#signals++;
    const lines = () =>
      existsSync(this.#file) ? readFileSync(this.#file, "utf8").split("\n") : [];
    await until("the server has measured itself", () => lines().length > this.#signals);
    const [ms = Number.NaN, holdMs = Number.NaN] = (lines().at(-2) ?? "").split(" ").map(Number);
    return [ms, holdMs];
  }

  /** The cost of one request. */
  async cost(parts: RequestParts): Promise<Cost> {
    const client = await Client.connect(this.trial.server.port);
    try {
      const [before] = await this.#look();
      // A HEAD has no body to wait for on a connection that closes.
      const headers = { ...parts.headers, Connection: "close" };
      await client.send(encodeRequest(this.trial, { ...parts, headers }));
      await until("it is answered", () => client.isClosed);
      const [after, holdMs] = await this.#look();
      return { status: Number(client.text.slice(9, 12)), ms: after - before, holdMs };
    } finally {
      client.destroy();
    }
  }

  /** The median cost of several requests; the shortest hold, because the machine has other work. */
  async costs(make: () => RequestParts, status: number): Promise<Cost> {
    const all: Cost[] = [];
    for (let run = 0; run < REQUEST_RUNS; run++) all.push(await this.cost(make()));
    for (const each of all) assert.equal(each.status, status);
    const holdMs = Math.min(...all.map((each) => each.holdMs));
    return { status, ms: median(all.map(({ ms }) => ms)), holdMs };
  }
}

/** Of as many digits as every other id here. */
const FIRST_ID = 10_000_000;

/** The same body with another id. */
function withId(body: Buffer, id: number): Buffer {
  const copy = Buffer.from(body);
  const at = copy.indexOf(`"id":${FIRST_ID}`);
  if (at >= 0) copy.write(`"id":${id}`, at);
  return copy;
}

const read = (target: string, headers = {}, method = "GET"): RequestParts => ({
  method,
  target,
  headers,
});

test(
  "a request holds the server for 50 ms at most, whatever it sends and reads",
  PATIENT,
  async (t) => {
    const server = await Measured.start(t);
    assert.equal(await server.trial.create(1), 200);
    const late: string[] = [];
    const describe = ({ ms, holdMs }: Cost) => `${ms.toFixed(1)}/${holdMs.toFixed(0)}`.padStart(8);
    const kinds = ["create", "repeat", "conflict", "GET", "304", "HEAD", "page", "HEAD page"];
    t.diagnostic(`processor ms/hold ms: ${kinds.join(", ")}`);
    let id = FIRST_ID;
    for (const content of worstContents(MIB, FIRST_ID)) {
      const { what, body, isPlant } = content;
      const create = () => ({ body: withId(body, ++id) });
      const costs = [await server.costs(create, isPlant ? 200 : 400)];
      if (isPlant && parseAndEncode(content).length > MIB / 8) {
        const repeat = { body: withId(body, id) };
        const conflict = { body: `{"id":${id},"name":"other"}` };
        const path = `/plants/${id}`;
        const page = `/plants?limit=1&after=${id - 1}`;
        for (const [parts, status] of [
          [repeat, 200],
          [conflict, 400],
          [read(path), 200],
          [read(path, { "If-None-Match": "*" }), 304],
          [read(path, {}, "HEAD"), 200],
          [read(page), 200],
          [read(page, {}, "HEAD"), 200],
        ] as const) {
          costs.push(await server.costs(() => parts, status));
        }
      }
      t.diagnostic(`${costs.map(describe).join("")}  ${what}`);
      if (costs.some(({ holdMs }) => holdMs > HOLD_MS_MAX)) late.push(what);
    }
    assert.deepEqual(late, []);
  },
);

/** Texts of which a head is full, and a query. */
const PIECES: readonly string[] = [
  ...[" ", "\t", "; ", ';a="', ';a="\\"', ';a="b"', "  a", "chunked,", "a.", "::", "http://"],
  ...[
    '"',
    '"",',
    '"a",',
    'W/"a", ',
    ",",
    ", ",
    ";",
    ";q=0,",
    "*/*,",
    "a,",
    "application/x-ndjson;q=0,",
  ],
  ...["%41", "&", "=&", "limit=1&", "&after=1", "%6cimit=1&", "+", "a=b&", "%", "/", "a"],
];

/** Headers of a create that are read, and how their worst contents begin. */
const HEADERS: readonly [name: string, start: string][] = [
  ["Content-Type", "application/json;"],
  ["Content-Encoding", "identity"],
  ["Expect", "100-continue"],
  ["Host", "a"],
  ["Content-Length", "1"],
  ["Transfer-Encoding", "chunked"],
  ["X-Request-Id", "a"],
];

const HEAD_BYTES = 15 * 1024;

test("a head of 16 KiB costs little, whatever it holds", PATIENT, async (t) => {
  const server = await Measured.start(t);
  assert.equal(await server.trial.create(1), 200);
  const late: string[] = [];
  for (const piece of PIECES) {
    const text = piece.repeat(Math.floor(HEAD_BYTES / piece.length));
    const costs: number[] = [];
    for (const parts of [
      read("/plants/1", { "If-None-Match": text }),
      read("/plants", { Accept: text }),
      read(`/plants?limit=1&${text}`),
      read(`/plants/${text}`),
      read(`http://a${text}/plants`),
      read("/plants/1", { Authorization: `Bearer a${text}!` }),
      ...HEADERS.map(([name, start]) => ({
        headers: { [name]: `${start}${text}!` },
        body: '{"id":1,"name":"Plant 1"}',
      })),
    ]) {
      const all: Cost[] = [];
      for (let run = 0; run < REQUEST_RUNS; run++) all.push(await server.cost(parts));
      costs.push(median(all.map(({ ms }) => ms)));
    }
    t.diagnostic(`${costs.map((ms) => ms.toFixed(1).padStart(6)).join("")} ms  ${piece}`);
    if (costs.some((ms) => ms > PARSE_MS_MAX)) late.push(piece);
  }
  assert.deepEqual(late, []);
});
