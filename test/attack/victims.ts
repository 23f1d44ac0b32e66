/**
 * The other clients of a server that is attacked, in a process of their own, so that nothing else disturbs
 * their clock. First they create the long plants, and print their `ETag`s. Then each line on standard input
 * names the phase that begins. In the last one they end after a good answer, or when their patience ends,
 * and print how they fared. Both are lines of JSON.
 *
 * Usage: victims.ts VICTIM_TARGET (as JSON)
 */
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import net from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { encodeRequest } from "../support/contract.ts";
import { parseAnswer, type RawAnswer } from "../support/raw.ts";
import { get, LONG_NAMES, longBody, victimPlant } from "./attacks.ts";

export interface VictimTarget {
  /** Of the server. */
  readonly pid: number;
  readonly port: number;
  readonly adminPort: number;
  readonly isTls: boolean;
  readonly writer: string;
  readonly reader: string;
}

export type Phase = "before" | "during" | "after";

/** What a victim does: creates on one connection, or each request on a connection of its own. */
export type Kind = "create" | "create on a new connection" | "read" | "scrape";

export interface Sample {
  readonly kind: Kind;
  readonly phase: Phase;
  /** Since the start of the process. */
  readonly at: number;
  readonly ms: number;
  /** For how much of that time the server used its core. */
  readonly ownMs: number;
  /** The status of the answer, or what came instead. */
  readonly outcome: string;
}

export interface Fared {
  readonly samples: readonly Sample[];
  /** When the attack ended, by the clock of the samples. */
  readonly endedAt: number;
  /** The ids of the plants that were answered 200. */
  readonly acknowledged: readonly string[];
}

const FIRST_ID = 7_000_000_000_000n;
const PATIENCE_MS = 10_000;
const EVERY_MS: Readonly<Record<Kind, number>> = {
  create: 20,
  "create on a new connection": 100,
  read: 100,
  scrape: 250,
};

const target: VictimTarget = JSON.parse(process.argv[2] ?? "");
const samples: Sample[] = [];
const acknowledged: string[] = [];
let phase: Phase = "before";
let nextId = FIRST_ID;

async function connect(port: number): Promise<net.Socket> {
  const isTls = target.isTls && port === target.port;
  const where = { port, host: "127.0.0.1" };
  const socket = isTls
    ? tls.connect({ ...where, rejectUnauthorized: false })
    : net.connect({ ...where, noDelay: true });
  socket.on("error", () => {});
  await once(socket, isTls ? "secureConnect" : "connect");
  return socket;
}

/** Sends a request, and returns its answer, or "closed". */
async function exchange(socket: net.Socket, request: Buffer): Promise<RawAnswer | "closed"> {
  const received: Buffer[] = [];
  return new Promise((resolve) => {
    const end = (answer: RawAnswer | "closed") => {
      socket.off("data", read).off("close", close);
      resolve(answer);
    };
    const close = () => end("closed");
    const read = (chunk: Buffer) => {
      received.push(chunk);
      const answer = parseAnswer(Buffer.concat(received), 0)?.answer;
      if (answer !== undefined) end(answer);
    };
    socket.on("data", read).on("close", close);
    if (socket.destroyed) close();
    else socket.write(request);
  });
}

/** 200, the number of an error, or what came instead. */
async function ask(socket: net.Socket, request: Buffer): Promise<string> {
  const answer = await exchange(socket, request);
  if (answer === "closed") return answer;
  const { status, text } = answer;
  return status === 200 ? "200" : (/"error":(\d+)/.exec(text)?.[1] ?? String(status));
}

/** The outcome of a request, or what happened instead. */
async function within(work: Promise<string>): Promise<string> {
  const late = new AbortController();
  const timeout = sleep(PATIENCE_MS, "timeout", { signal: late.signal }).catch(() => "");
  const outcome = await Promise.race([
    work.catch((error: NodeJS.ErrnoException) => error.code ?? error.message),
    timeout,
  ]);
  late.abort();
  return outcome;
}

/** On a connection of its own, which is closed afterwards. */
async function askOnce(port: number, request: Buffer): Promise<string> {
  let socket: net.Socket | undefined;
  const work = async () => {
    socket = await connect(port);
    return ask(socket, request);
  };
  const outcome = await within(work());
  socket?.destroy();
  return outcome;
}

let kept: net.Socket | undefined;

async function createOn(isKept: boolean): Promise<string> {
  const id = String(nextId++);
  const request = encodeRequest({ token: target.writer }, { body: victimPlant(id) });
  let outcome: string;
  if (isKept) {
    outcome = await within(
      (async () => {
        if (kept === undefined || kept.destroyed) kept = await connect(target.port);
        return ask(kept, request);
      })(),
    );
    if (outcome !== "200") {
      kept?.destroy();
      kept = undefined;
    }
  } else outcome = await askOnce(target.port, request);
  if (outcome === "200") acknowledged.push(id);
  return outcome;
}

const read = get(target.reader, "/plants/1");
const scrapes = ["/metrics", "/readyz"].map((path) =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`),
);
let scraped = 0;

const REQUESTS: Readonly<Record<Kind, () => Promise<string>>> = {
  create: () => createOn(true),
  "create on a new connection": () => createOn(false),
  read: () => askOnce(target.port, read),
  scrape: () => askOnce(target.adminPort, scrapes[scraped++ % scrapes.length] ?? Buffer.alloc(0)),
};

/** How much processor time the threads of the server have used, in milliseconds. */
function usedMs(): number {
  const tasks = `/proc/${target.pid}/task`;
  try {
    const used = readdirSync(tasks).map((task) => {
      const [nanoseconds] = readFileSync(`${tasks}/${task}/schedstat`, "utf8").split(" ");
      return Number(nanoseconds) / 1e6;
    });
    return used.reduce((sum, ms) => sum + ms, 0);
  } catch {
    return Number.NaN; // it has ended, or one of its threads
  }
}

let endedAt = Number.POSITIVE_INFINITY;

/** Whether the clients have seen that the server is good again, or waited long enough. */
function isOver(): boolean {
  const isGood = ({ kind, at, outcome }: Sample) =>
    kind === "create on a new connection" && at >= endedAt && outcome === "200";
  return performance.now() - endedAt > PATIENCE_MS || samples.some(isGood);
}

async function goOn(kind: Kind): Promise<void> {
  while (!isOver()) {
    const at = performance.now();
    const begunIn = phase;
    const usedBefore = usedMs();
    const outcome = await REQUESTS[kind]();
    const ms = performance.now() - at;
    samples.push({ kind, phase: begunIn, at, ms, ownMs: usedMs() - usedBefore, outcome });
    await sleep(Math.max(1, EVERY_MS[kind] - ms));
  }
}

/** Creates the long plants, and returns the `ETag` of each. */
async function prepare(): Promise<Record<string, string>> {
  const socket = await connect(target.port);
  const etags: Record<string, string> = {};
  for (const [id, [, written]] of Object.entries(LONG_NAMES)) {
    const body = longBody(id, written);
    const outcome = await ask(socket, encodeRequest({ token: target.writer }, { body }));
    if (outcome !== "200") throw new Error(`a long plant: expected 200, got ${outcome}`);
    const answer = await exchange(socket, get(target.reader, `/plants/${id}`));
    if (answer !== "closed") etags[id] = answer.headers.get("etag") ?? "";
  }
  socket.destroy();
  return etags;
}

process.stdout.write(`${JSON.stringify(await prepare())}\n`);
const clients = Object.keys(REQUESTS).map((kind) => goOn(kind as Kind));
for await (const line of createInterface({ input: process.stdin })) {
  phase = line as Phase;
  if (phase !== "after") continue;
  endedAt = performance.now();
  break;
}
await Promise.all(clients);
process.stdout.write(`${JSON.stringify({ samples, endedAt, acknowledged })}\n`, () =>
  process.exit(),
);
