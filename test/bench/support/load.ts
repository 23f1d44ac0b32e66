/**
 * Load on one server for some seconds: by `wrk` if it is installed, or else by
 * load/client.mjs. Every create has an id that no other create of this bench has;
 * repeats and reads have ids of stored plants, at random.
 *
 * `wrk` closes its connections with requests in flight. It knows what was answered, but
 * the server may have carried out one more request on each connection. Our own client
 * waits for the answers and is exact. `h2load` cannot give every request its own body.
 */
import { fileURLToPath } from "node:url";
import { isInstalled, pinned } from "./machine.ts";
import { runToEnd } from "./program.ts";

export interface LoadResult {
  /** The first id. */
  readonly firstId: number;
  /** Answers with status 200. */
  readonly requests: number;
  /** How many more may have been carried out, unanswered. */
  readonly inFlightMax: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface LoadOptions {
  readonly port: number;
  readonly token: string;
  readonly connections: number;
  readonly seconds: number;
  /** Plants to repeat or to read; absent: creates. */
  readonly lookUp?: LookUp | undefined;
}

/** Plants by their ids, all of which follow each other. */
export interface Ids {
  readonly firstId: number;
  readonly count: number;
}

export interface LookUp extends Ids {
  /** `page`: the first hundred plants; only `wrk` sends it. */
  readonly kind: "repeat" | "get" | "page";
}

const SCRIPT = fileURLToPath(new URL("../load/unique-ids.lua", import.meta.url));
const CLIENT = fileURLToPath(new URL("../load/client.mjs", import.meta.url));

const hasWrk = isInstalled("wrk", ["-v"]);

export const loadName = hasWrk
  ? "wrk, one thread"
  : "a client of its own in Node, which may be the bottleneck (apt-get install wrk is better)";

/** 16 digits from the first to the last; a run has room for 100 million. */
const FIRST_ID = 1_000_000_000_000_000;
const IDS_PER_RUN = 100_000_000;
let runs = 0;

/** The first id of a run. No other run has its ids, of which `wrk` draws one that it does not send. */
export function nextFirstId(): number {
  return FIRST_ID + runs++ * IDS_PER_RUN;
}

/** @throws Error when any request was not answered 200. */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const firstId = options.lookUp?.firstId ?? nextFirstId();
  const words = hasWrk ? wrkWords(options, firstId) : clientWords(options, firstId);
  const text = await runToEnd([...pinned(1), ...words]);
  const result = JSON.parse(text.trim().split("\n").at(-1) ?? "") as Record<string, number>;
  const { requests = 0, us = 1, p50 = 0, p99 = 0, failures = 0 } = result;
  if (failures > 0 || requests === 0) {
    throw new Error(`${failures} requests failed, ${requests} were answered 200`);
  }
  return {
    firstId,
    requests,
    inFlightMax: hasWrk ? options.connections : 0,
    perSecond: requests / (us / 1e6),
    p50Ms: p50 / 1000,
    p99Ms: p99 / 1000,
  };
}

function wrkWords(
  { port, token, connections, seconds, lookUp }: LoadOptions,
  firstId: number,
): string[] {
  const url = `http://127.0.0.1:${port}`;
  const size = ["-t1", `-c${connections}`, `-d${Math.ceil(seconds)}s`, "--timeout", "10s"];
  return ["wrk", ...size, "-s", SCRIPT, url, "--", String(firstId), token, ...kindWords(lookUp)];
}

/** The kind of the requests, and for look-ups from how many ids they draw. */
function kindWords(lookUp: LookUp | undefined): string[] {
  return lookUp === undefined ? ["create"] : [lookUp.kind, String(lookUp.count)];
}

function clientWords(options: LoadOptions, firstId: number): string[] {
  const { port, token, connections, seconds } = options;
  const words = [port, token, connections, seconds, firstId].map(String);
  return [process.execPath, CLIENT, ...words, ...kindWords(options.lookUp)];
}
