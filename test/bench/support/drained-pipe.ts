/**
 * A pipe that is read as fast as it is filled, as a supervisor reads what its
 * service says: on the core of the load, so that the server pays for writing alone.
 */
import fs from "node:fs";
import { pinned } from "./machine.ts";
import { runToEnd } from "./program.ts";

export interface DrainedPipe {
  /** Where to write; to be closed here once the writer has it. */
  readonly fd: number;
  /** How many lines came, when the last writer has closed it. */
  readonly lines: Promise<number>;
}

/** @param file a name for it, which is free. */
export async function openDrainedPipe(file: string): Promise<DrainedPipe> {
  // What Node calls a pipe between processes is a pair of sockets: a log may treat those otherwise.
  await runToEnd(["mkfifo", "-m", "600", file]);
  const counted = runToEnd([...pinned(1), "wc", "-l", file]);
  const lines = counted.then((text) => Number.parseInt(text, 10));
  return { fd: fs.openSync(file, "w"), lines };
}
