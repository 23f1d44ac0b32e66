/**
 * Shows once per server, by its system calls, that a sync as the bench counts it
 * reaches the kernel as one: a write on a descriptor opened with O_DSYNC, or an
 * fdatasync after the writes. A short run under `strace`; measured runs go without
 * it.
 */
import fs from "node:fs";
import path from "node:path";
import { measure } from "./compare.ts";
import { isInstalled, note } from "./machine.ts";
import type { Target } from "./targets.ts";

const CALLS = "openat,pwrite64,pwritev,pwritev2,write,writev,fdatasync,fsync";
const CONNECTIONS = 64;

/** What the system calls have synced of one file. */
interface KernelSyncs {
  readonly syncs: number;
  readonly syncedBytes: number;
}

/**
 * @param start starts the server under a wrapper, in the folder.
 * @param file the file in that folder to which the server writes before it answers.
 * @throws Error if the server does not sync what it acknowledges.
 */
export async function checkSyncs(
  folder: string,
  file: string,
  start: (wrapper: readonly string[]) => Promise<Target>,
): Promise<string> {
  if (!isInstalled("strace")) return "unchecked (strace is not installed)";
  const output = `${folder}.strace`;
  const flags = ["-f", "--seccomp-bpf", "-qq", "-y", "-s", "0"];
  const target = await start(["strace", ...flags, "-e", `trace=${CALLS}`, "-o", output]);
  const { syncs, records } = await measure(target, CONNECTIONS, 1);
  const { bytes = 0 } = (await target.durable?.()) ?? {};
  await target.stop();
  const kernel = readTrace(fs.readFileSync(output, "utf8"), path.join(folder, file));
  fs.rmSync(output);
  if (kernel.syncs < syncs || kernel.syncedBytes < bytes) {
    throw new Error(
      `${target.name} reports ${syncs} syncs of ${bytes} bytes, the kernel saw ${kernel.syncs} of ${kernel.syncedBytes}`,
    );
  }
  const text = `${records} records in ${syncs} syncs; the kernel saw ${kernel.syncs}`;
  note(`${target.name} under strace: ${text}`);
  return text;
}

function readTrace(trace: string, file: string): KernelSyncs {
  let syncs = 0;
  let syncedBytes = 0;
  let unsyncedBytes = 0;
  const syncing = new Set<string>();
  for (const { call, fd, path: target, text, result } of joinCalls(trace)) {
    if (target !== file || result < 0) continue;
    if (call === "openat") {
      if (/\bO_D?SYNC\b/.test(text)) syncing.add(fd);
    } else if (call === "fdatasync" || call === "fsync") {
      syncs++;
      syncedBytes += unsyncedBytes;
      unsyncedBytes = 0;
    } else if (syncing.has(fd)) {
      syncs++;
      syncedBytes += result;
    } else {
      unsyncedBytes += result;
    }
  }
  return { syncs, syncedBytes };
}

interface Call {
  readonly call: string;
  readonly fd: string;
  readonly path: string;
  readonly text: string;
  readonly result: number;
}

/** The calls in the order in which they returned; strace tears apart those that overlap. */
function* joinCalls(trace: string): Generator<Call> {
  const begun = new Map<string, string>();
  for (const line of trace.split("\n")) {
    const [, thread = "", rest = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const unfinished = rest.indexOf(" <unfinished ...>");
    if (unfinished >= 0) {
      begun.set(thread, rest.slice(0, unfinished));
      continue;
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)?.[1];
    const text = resumed === undefined ? rest : `${begun.get(thread)}${resumed}`;
    const [, call = "", argument = ""] = /^(\w+)\((.*)$/.exec(text) ?? [];
    const result = Number(/= (-?\d+)[^=]*$/.exec(text)?.[1] ?? -1);
    // The descriptor is what openat returns and what the others begin with.
    const named = call === "openat" ? /= (\d+)<([^>]*)>$/ : /^(\d+)<([^>]*)>/;
    const [, fd = "", file = ""] = named.exec(call === "openat" ? text : argument) ?? [];
    if (call !== "") yield { call, fd, path: file, text, result };
  }
}
