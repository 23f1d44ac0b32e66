/**
 * The port to the lock of a data directory, which at most one living process holds, and its implementation by
 * sockets. A simulation hands in another one, because a socket is no file on a disk.
 *
 * The lock is a listening Unix socket, linked into the folder as `<name>.N` under the next free number; the highest
 * number is the holder. The kernel closes the socket when the process ends, so a dead holder never blocks a start, and
 * a living one sends each connection one line about itself. Only a refused connection proves a holder dead. `close`
 * does not remove the highest entry: a slower rival could reuse its number, and both would believe that they hold the
 * lock. A holder whose entry is gone has lost the lock.
 *
 * Of two that link one number, one fails (EEXIST). One that finds a higher number than its own gives up. One that was
 * so slow that the holder has tidied up its socket (ENOENT) begins again, and then finds the holder.
 *
 * Not safe on network file systems, where sockets do not reach other machines.
 */
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { clock, sleep } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { ioError, systemCode, withIoError } from "./disk.ts";

/** The reply of a holder, one line of JSON. `command`: what it runs, such as `serve`; `since`: ISO 8601. */
export interface Holder {
  readonly pid: number;
  /** The machine or container to which `pid` belongs. */
  readonly host: string;
  readonly command: string;
  readonly since: string;
  /** The length of the log that is known to be on disk; absent if none is open yet. */
  readonly durableBytes?: number | undefined;
}

export interface LockOptions {
  /** Locks of different names are independent. */
  readonly name: string;
  readonly command: string;
  /** How long to wait for a living holder to end. Default: 0. */
  readonly waitMs?: number;
  /** Called whenever another process asks. */
  readonly durableBytes?: () => number | undefined;
}

export interface Lock {
  /** Holds until the caller awaits something. @throws PlantStoreError `locked` if its entry is gone. */
  assertHeld(): void;
}

export interface HeldLock extends Lock {
  close(): Promise<void>;
}

export interface Locks {
  /** @throws PlantStoreError `locked`, naming the holder; `io_error` if sockets or links do not work. */
  acquire(directory: string, options: LockOptions): Promise<HeldLock>;
  /** The living holder. @throws PlantStoreError `locked` if it does not reply within 1 s; `io_error`. */
  findHolder(directory: string, name: string): Promise<Holder | undefined>;
}

const REPLY_TIMEOUT_MS = 1000;
const SOCKET_PATH_BYTES_MAX = 107; // `sun_path` of unix(7) holds 108, the last one a NUL
const RETRY_MS = 10;

async function acquire(directory: string, options: LockOptions): Promise<HeldLock> {
  const deadline = clock.monotonicMs() + (options.waitMs ?? 0);
  for (;;) {
    try {
      return await claim(directory, options);
    } catch (cause) {
      if (!(cause instanceof PlantStoreError)) throw ioError(`Cannot lock "${directory}"`, cause);
      if (cause.code !== "locked" || clock.monotonicMs() >= deadline) throw cause;
      await sleep(RETRY_MS);
    }
  }
}

async function claim(directory: string, options: LockOptions, isLast = false): Promise<HeldLock> {
  const lockPath = path.join(path.resolve(directory), options.name);
  const temporary = `${lockPath}.${TEMPORARY}${clock.randomBytes(4).toString("hex")}`;
  assertFits(temporary);
  const server = respondWith(options);
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()));
  server.listen({ path: temporary, exclusive: true });
  await once(server, "listening");
  try {
    const highest = highestOf(lockPath);
    const holder = await ask(`${lockPath}.${highest}`);
    if (holder !== undefined) throw lockedError(directory, holder);
    const next = highest + 1;
    const entry = `${lockPath}.${next}`;
    fs.linkSync(temporary, entry);
    if (highestOf(lockPath) !== next) throw lockedError(directory);
    // On some FUSE file systems a linked socket is another file, and reaches nobody.
    if ((await ask(entry)) === undefined) {
      throw new Error("its file system does not link sockets; use another one, such as ext4");
    }
    for (const end of suffixesOf(lockPath)) {
      const isOld = NUMBER.test(end) && Number(end) < next;
      if (isOld || end.startsWith(TEMPORARY)) fs.rmSync(`${lockPath}.${end}`, { force: true });
    }
    return { close, assertHeld: watch(entry) };
  } catch (error) {
    await close();
    if (!["EEXIST", "ENOENT"].includes(systemCode(error) ?? "")) throw error;
    if (isLast) throw lockedError(directory);
    return claim(directory, options, true); // another process was faster: now it can be asked
  } finally {
    fs.rmSync(temporary, { force: true });
  }
}

const NUMBER = /^[1-9][0-9]*$/;
const TEMPORARY = "new-"; // begins the suffix of a socket that no number leads to yet

function suffixesOf(lockPath: string): string[] {
  const prefix = `${path.basename(lockPath)}.`;
  const names = fs.readdirSync(path.dirname(lockPath));
  return names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
}

/** The highest number there is; 0 for none. */
function highestOf(lockPath: string): number {
  const numbers = suffixesOf(lockPath).filter((suffix) => NUMBER.test(suffix));
  return Math.max(0, ...numbers.map(Number));
}

/** A server that tells each connection who holds the lock. */
function respondWith({ command, durableBytes }: LockOptions): net.Server {
  const since = new Date(clock.wallMs()).toISOString();
  const server = net.createServer((socket) => {
    socket.on("error", () => {}); // the process that asked has ended
    const who = { pid: process.pid, host: os.hostname(), command, since };
    const holder: Holder = { ...who, durableBytes: durableBytes?.() };
    socket.end(`${JSON.stringify(holder)}\n`, () => socket.destroy());
  });
  server.on("error", () => {}); // no free descriptor: others get no reply, and the lock stays held
  return server.unref();
}

/** Returns a function that throws once the entry is removed or replaced. */
function watch(entry: string): () => void {
  const { ino } = fs.lstatSync(entry, { bigint: true });
  return () => {
    if (fs.lstatSync(entry, { bigint: true, throwIfNoEntry: false })?.ino === ino) return;
    const message = `"${entry}" was removed or replaced; find the program that did it, then start again`;
    throw new PlantStoreError("locked", message);
  };
}

/** The reply of the holder; `undefined` if its process is dead, `"silent"` if it lives but does not reply. */
async function ask(entry: string): Promise<Holder | "silent" | undefined> {
  assertFits(entry);
  const stop = new AbortController();
  const timer = clock.setTimeout(() => stop.abort(), REPLY_TIMEOUT_MS);
  try {
    let line = "";
    const socket = net.connect({ path: entry, signal: stop.signal }).setEncoding("utf8");
    for await (const text of socket) line += text;
    return JSON.parse(line);
  } catch (error) {
    const code = systemCode(error) ?? "";
    if (code === "EACCES") throw new Error(`"${entry}" belongs to another user: change its owner`);
    return code === "ECONNREFUSED" || code === "ENOENT" ? undefined : "silent";
  } finally {
    clock.clearTimeout(timer);
  }
}

function assertFits(socketPath: string): void {
  if (Buffer.byteLength(socketPath) <= SOCKET_PATH_BYTES_MAX) return;
  throw new Error(`"${socketPath}" is too long for a socket; use a symbolic link to its folder`);
}

function findHolder(directory: string, name: string): Promise<Holder | undefined> {
  return withIoError(`Cannot find out who uses "${directory}"`, async () => {
    const lockPath = path.join(path.resolve(directory), name);
    for (let highest = highestOf(lockPath); highest > 0; ) {
      const holder = await ask(`${lockPath}.${highest}`);
      if (holder === "silent") throw lockedError(directory, holder);
      const asked = highest;
      highest = highestOf(lockPath);
      if (holder !== undefined || highest === asked) return holder; // else there is a new one
    }
    return undefined;
  });
}

function lockedError(directory: string, holder: Holder | "silent" = "silent"): PlantStoreError {
  const by =
    holder === "silent"
      ? `a process that has just started, or does not respond (fuser "${directory}"/*lock.*)`
      : `"${holder.command}" (process ${holder.pid} on "${holder.host}", since ${holder.since})`;
  const message = `Cannot use "${directory}": it is in use by ${by}; stop that process, or wait for it`;
  return new PlantStoreError("locked", message);
}

/** The locks of this program. */
export let locks: Locks = { acquire, findHolder };

/** For a simulation. @internal */
export function setLocks(other: Locks): void {
  locks = other;
}
