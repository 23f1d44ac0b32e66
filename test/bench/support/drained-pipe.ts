/**
 * A pipe that is read as fast as it is filled, as a supervisor reads the log of its
 * service: on the core of the load, so that the server pays for writing alone.
 */
import fs from "node:fs";
import { pinned } from "./machine.ts";
import { runToEnd } from "./program.ts";

export interface DrainedPipe {
  /** Where to write; the caller closes it after it has given it to the writer. */
  readonly fd: number;
  /** How many lines came; known when the last writer has closed the pipe. */
  readonly lines: Promise<number>;
}

/** @param file the path of the pipe, at which no file exists yet. */
export async function openDrainedPipe(file: string): Promise<DrainedPipe> {
  // What Node calls a pipe between processes is a pair of sockets: a log may treat those differently.
  await runToEnd(["mkfifo", "-m", "600", file]);
  const counted = runToEnd([...pinned(1), "wc", "-l", file]);
  const lines = counted.then((text) => Number.parseInt(text, 10));
  return { fd: fs.openSync(file, "w"), lines };
}
