/** A client, on the core of the load, that reads all plants of a server as a stream. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { pinned } from "./machine.ts";
import { endWithBench, runToEnd } from "./program.ts";
import type { Target } from "./targets.ts";

/** What came: see load/read-stream. */
export interface StreamRead {
  readonly plants: number;
  readonly bytes: number;
  /** How long it was reading. */
  readonly ms: number;
  readonly silenceMs: number;
}

type Readable = Pick<Target, "port" | "token">;

const READER = fileURLToPath(new URL("../load/read-stream.mjs", import.meta.url));

/** Reads one stream to its end. */
export async function readStream(target: Readable): Promise<StreamRead> {
  return parseRead(await runToEnd(words(target, "once")));
}

export interface Reading {
  /** Begins another stream, after it has left one. */
  begin(): void;
  /** Leaves the stream. */
  leave(): void;
  stop(): Promise<StreamRead>;
}

/** Reads one stream after the other, from the first bytes on until it is stopped. */
export async function startReading(target: Readable): Promise<Reading> {
  const [program = "", ...args] = words(target, "again");
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  endWithBench(child);
  child.stdin.on("error", () => {}); // if the reader is gone, its status is reported
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const ended = once(child, "close").then(([status]) => {
    if (status !== 0) throw new Error(`the reader of the stream ended with ${status}`);
    return parseRead(text);
  });
  await Promise.race([once(child.stdout, "data"), ended]);
  return {
    begin: () => child.stdin.write("begin\n"),
    leave: () => child.stdin.write("leave\n"),
    stop: () => {
      child.kill();
      return ended;
    },
  };
}

function words({ port, token }: Readable, times: "once" | "again"): string[] {
  return [...pinned(1), process.execPath, READER, String(port), token, times];
}

function parseRead(text: string): StreamRead {
  return JSON.parse(text.trim().split("\n").at(-1) ?? "");
}
