/** Load on one server for some seconds, by `wrk`. Every create has an id that no other create of the process has. */
import fs from "node:fs";
import { fileURLToPath } from "node:url";
import { runToEnd, type Server } from "./programs.ts";

export interface Load {
  /** The first id. */
  readonly firstId: number;
  /** Responses with status 200. */
  readonly requests: number;
  readonly perSecond: number;
  readonly p50Ms: number;
}

/** Plants that are repeated or read at random. */
interface LookUp {
  readonly kind: "repeat" | "get";
  readonly firstId: number;
  readonly count: number;
}

const SCRIPT = fileURLToPath(new URL("requests.lua", import.meta.url));

/** 16 digits from the first to the last; a run has room for 100 million. */
let nextId = 1_000_000_000_000_000;

/** @throws Error when any request got another response than 200. */
export async function load(
  { port, token }: Server,
  connections: number,
  seconds: number,
  lookUp?: LookUp,
): Promise<Load> {
  const firstId = lookUp?.firstId ?? nextId;
  if (lookUp === undefined) nextId += 100_000_000;
  const size = ["-t1", `-c${connections}`, `-d${Math.ceil(seconds)}s`, "--timeout", "10s"];
  const kind = lookUp === undefined ? ["create"] : [lookUp.kind, `${lookUp.count}`];
  const args = ["-s", SCRIPT, `http://127.0.0.1:${port}`, "--", `${firstId}`, token, ...kind];
  const text = await runToEnd(["wrk", ...size, ...args]);
  const { requests, us, p50, failures } = JSON.parse(text.trim().split("\n").at(-1) ?? "");
  if (failures > 0 || requests === 0) throw new Error(`${failures} of ${requests} failed`);
  return { firstId, requests, perSecond: requests / (us / 1e6), p50Ms: p50 / 1000 };
}

/** Creates with a check that the log grew by as many lines as there were responses, and what was in flight at the end. */
export async function create(server: Server, connections: number, seconds: number): Promise<Load> {
  const before = await countLines(server);
  const result = await load(server, connections, seconds);
  if (server.log === undefined) return result;
  await new Promise((resolve) => setTimeout(resolve, 200)); // what was in flight is stored
  const stored = (await countLines(server)) - before;
  if (stored < result.requests || stored > result.requests + connections) {
    throw new Error(`${result.requests} responses were 200, and ${stored} plants are stored`);
  }
  return result;
}

async function countLines({ log }: Server): Promise<number> {
  if (log === undefined || !fs.existsSync(log)) return 0;
  return Number.parseInt(await runToEnd(["wc", "-l", log]), 10);
}
