/**
 * Load on one server for some seconds, by `wrk` if it is installed, or else by load/client.mjs. Every create has an id
 * that no other create of the process has.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isInstalled, pinned, runToEnd, type Server } from "./programs.ts";

export interface Load {
  /** The first id. */
  readonly firstId: number;
  /** Answers with status 200. */
  readonly requests: number;
  /** How many more may have been carried out: `wrk` closes connections with requests in flight. */
  readonly inFlightMax: number;
  readonly perSecond: number;
  readonly p50Ms: number;
}

/** Plants that are repeated or read at random. */
interface LookUp {
  readonly kind: "repeat" | "get";
  readonly firstId: number;
  readonly count: number;
}

const SCRIPT = fileURLToPath(new URL("load/requests.lua", import.meta.url));
const CLIENT = fileURLToPath(new URL("load/client.mjs", import.meta.url));
const hasWrk = isInstalled("wrk", ["-v"]);

export const loadName = hasWrk
  ? "wrk"
  : "a client in Node, which may be the bottleneck (apt-get install wrk is better)";

/** 16 digits from the first to the last; a run has room for 100 million. */
let nextId = 1_000_000_000_000_000;

/** @throws Error when any request was not answered 200. */
export async function load(
  { port, token }: Server,
  connections: number,
  seconds: number,
  lookUp?: LookUp,
): Promise<Load> {
  const firstId = lookUp?.firstId ?? nextId;
  if (lookUp === undefined) nextId += 100_000_000;
  const kind = lookUp === undefined ? ["create"] : [lookUp.kind, String(lookUp.count)];
  const size = ["-t1", `-c${connections}`, `-d${Math.ceil(seconds)}s`, "--timeout", "10s"];
  const url = `http://127.0.0.1:${port}`;
  const numbers = [port, token, connections, seconds, firstId].map(String);
  const words = hasWrk
    ? ["wrk", ...size, "-s", SCRIPT, url, "--", String(firstId), token, ...kind]
    : [process.execPath, CLIENT, ...numbers, ...kind];
  const text = await runToEnd([...pinned(1), ...words]);
  const { requests, us, p50, failures } = JSON.parse(text.trim().split("\n").at(-1) ?? "");
  if (failures > 0 || requests === 0) {
    throw new Error(`${failures} requests failed, ${requests} were answered 200`);
  }
  const inFlightMax = hasWrk ? connections : 0;
  return { firstId, requests, inFlightMax, perSecond: requests / (us / 1e6), p50Ms: p50 / 1000 };
}

/** Creates with a check that the log grew by as many lines as creates were answered. */
export async function create(server: Server, connections: number, seconds: number): Promise<Load> {
  const before = countLines(server);
  const result = await load(server, connections, seconds);
  if (server.log === undefined) return result;
  await new Promise((resolve) => setTimeout(resolve, 200)); // what was in flight is stored
  const stored = countLines(server) - before;
  if (stored < result.requests || stored > result.requests + result.inFlightMax) {
    throw new Error(`${result.requests} were answered 200, and ${stored} stored`);
  }
  return result;
}

function countLines({ log }: Server): number {
  if (log === undefined) return 0;
  const { stdout } = spawnSync("wc", ["-l", log], { encoding: "utf8" });
  return Number.parseInt(stdout, 10) || 0; // there may be no log yet
}
