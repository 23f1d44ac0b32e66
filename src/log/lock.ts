/**
 * The port to the lock of a data directory, which at most one living process holds, and its
 * implementation by sockets. A simulation hands in another one, because a socket is no file on a disk.
 *
 * The lock is a listening Unix socket, linked into the folder as `<name>.N` under the next free
 * number; the highest number is the holder. The kernel closes the socket when the process ends, so a
 * dead holder never blocks anyone, and a living one answers each connection with one line about
 * itself. Only a refused connection proves a holder dead, so a holder first proves that its own entry
 * reaches it: on FUSE file systems a linked socket may be another file. The highest entry is never
 * removed, not even by `close`: a slower rival could otherwise reuse its number, and both would
 * believe that they won. A holder whose entry is removed all the same has lost the lock, and never
 * links it again.
 *
 * A socket that accepts connections counts as a living process. Its answer names the holder in
 * messages, and says how far readers in other processes may read. Every user who may write in the
 * folder may hold the lock, and shorten what others read: a start warns of wider permissions.
 *
 * Not safe on network file systems, where sockets do not reach other machines; even there the appends
 * of log/file do not overwrite those of another process.
 */
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { clock, sleep } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { SOCKET_PATH_BYTES_MAX } from "../core/options.ts";
import type { Timer } from "../core/services.ts";
import {
  describeSystemError,
  type FileState,
  ioError,
  isSameFile,
  orIoError,
  systemCode,
} from "./disk.ts";
import { unreliableFileSystem } from "./folder.ts";

/** The answer of a holder: one line of JSON, at most 4 KiB, within 1 s. */
interface LockHolder {
  readonly pid: number;
  /** The host name of the machine or container to which `pid` belongs. */
  readonly host: string;
  /** What it does, e.g. `serve`. */
  readonly command: string;
  /** ISO 8601, UTC. */
  readonly since: string;
  /** The length of the log that is known to be on disk; absent if none is open yet. */
  readonly durableBytes?: number;
}

export interface LockOptions {
  /** Locks of different names are independent. */
  readonly name: string;
  /** Named in the error of a process that is refused. */
  readonly command: string;
  /** How long to wait for a living holder to end. Default: 0. */
  readonly waitMs?: number;
  /** Called whenever another process asks. */
  readonly durableBytes?: (() => number | undefined) | undefined;
}

/** A lock that this process has taken. */
export interface HeldLock {
  /** Resolves, never rejects, when the entry of this lock was found removed or replaced. */
  readonly lost: Promise<Error>;
  /**
   * Looks at the entry now. Call it in the turn that relies on the lock: a process that was frozen has
   * not looked meanwhile.
   *
   * @returns why the lock is lost; `undefined` while it is held.
   */
  findLoss(): Error | undefined;
  close(): Promise<void>;
}

export interface Locks {
  /** @throws PlantStoreError `locked`, naming the holder; `io_error` if sockets or links do not work. */
  acquire(directory: string, options: LockOptions): Promise<HeldLock>;
  /**
   * How much of a log the process that writes it knows to be on disk; `undefined` if there is none.
   *
   * @throws PlantStoreError `locked` if a living holder does not answer within 1 s, or does not know yet.
   */
  askDurableBytes(directory: string, name: string): Promise<number | undefined>;
}

/** A holder that takes longer for its answer counts as living and silent. */
const ANSWER_TIMEOUT_MS = 1000;
const ANSWER_CHARACTERS_MAX = 4096;
/** An acquire gives up after so many rivals that were faster and died at once. */
const DEAD_RIVALS_MAX = 10;
/** Between two attempts at a lock that is held for milliseconds. */
const RETRY_MS = 10;
/** How often a holder that is idle checks that its entry is still there. */
const CHECK_INTERVAL_MS = 500;

class SocketLock implements HeldLock {
  readonly lost: Promise<Error>;
  readonly #folder: LockFolder;
  readonly #server: net.Server;
  readonly #entry: Entry;
  readonly #checking: Timer;
  #loss: Error | undefined;
  #reportLoss: (loss: Error) => void = () => {};

  constructor(folder: LockFolder, server: net.Server, entry: Entry) {
    this.#folder = folder;
    this.#server = server;
    this.#entry = entry;
    this.lost = new Promise((resolve) => {
      this.#reportLoss = resolve;
    });
    this.#checking = clock.setInterval(() => this.findLoss(), CHECK_INTERVAL_MS);
    this.#checking.unref(); // a lock alone keeps no process alive
  }

  findLoss(): Error | undefined {
    if (this.#loss === undefined && !this.#entry.isThere()) {
      this.#loss = lostError(this.#entry.path);
      clock.clearInterval(this.#checking);
      this.#reportLoss(this.#loss);
    }
    return this.#loss;
  }

  async close(): Promise<void> {
    clock.clearInterval(this.#checking);
    await close(this.#server, this.#folder);
  }
}

async function acquire(directory: string, options: LockOptions): Promise<HeldLock> {
  const deadline = clock.steadyMs() + (options.waitMs ?? 0);
  for (let deadRivals = 0; ; ) {
    const result = await tryAcquire(directory, options);
    if (result instanceof SocketLock) return result;
    if (result === "dead" && ++deadRivals < DEAD_RIVALS_MAX) continue;
    if (clock.steadyMs() >= deadline) throw lockedError(directory, result);
    await sleep(RETRY_MS);
  }
}

/** Returns the answer of the holder if there is one. */
async function tryAcquire(directory: string, options: LockOptions): Promise<SocketLock | Answer> {
  if (!fs.existsSync(directory)) {
    throw new PlantStoreError(
      "io_error",
      `Cannot use "${directory}": there is no such folder; name the data directory with --data`,
    );
  }
  const folder = new LockFolder(directory, options.name);
  const since = new Date(clock.wallMs()).toISOString();
  const server = answerWith(options, since);
  let claimed: Entry | Answer = "dead";
  try {
    claimed = await claim(folder, server, since);
    if (claimed instanceof Entry) return new SocketLock(folder, server, claimed);
    return claimed;
  } catch (cause) {
    if (cause instanceof PlantStoreError) throw cause;
    if (systemCode(cause) === "EACCES") throw refusedError(directory, cause);
    throw UNSUPPORTED.includes(systemCode(cause) ?? "")
      ? unsupportedError(directory, describeSystemError(cause))
      : ioError(`Cannot lock "${directory}"${describeUsers(directory, cause)}`, cause);
  } finally {
    if (!(claimed instanceof Entry)) await close(server, folder);
  }
}

/** Who owns the folder and who runs this process, if that is why the folder cannot be written. */
function describeUsers(directory: string, cause: unknown): string {
  if (systemCode(cause) !== "EACCES") return "";
  const { uid } = fs.statSync(directory);
  return `, which belongs to user ${uid}, as user ${process.geteuid?.()}`;
}

/** Also removes the name that the socket was bound to. */
async function close(server: net.Server, folder: LockFolder): Promise<void> {
  await new Promise((resolve) => server.close(resolve));
  folder.close();
}

async function askDurableBytes(directory: string, name: string): Promise<number | undefined> {
  const folder = new LockFolder(directory, name);
  const asking = orIoError(`Cannot ask who uses "${directory}"`, async () => {
    for (let highest = folder.highest(); ; ) {
      const answer = await ask(folder, highest);
      if (typeof answer === "object" && answer.durableBytes !== undefined) {
        return answer.durableBytes;
      }
      if (answer !== "dead") throw lockedError(directory, answer);
      const asked = highest;
      highest = folder.highest();
      if (highest === asked) return undefined; // else a process has taken the next number
    }
  });
  return asking.finally(() => folder.close());
}

/** What a socket answered. */
type Answer = LockHolder | "silent" | "dead";

/** Wins the lock, or returns the answer of its holder; a `dead` holder has lost it again. */
async function claim(
  folder: LockFolder,
  server: net.Server,
  since: string,
): Promise<Entry | Answer> {
  const mine = `${TEMPORARY}${clock.randomBytes(6).toString("hex")}`;
  // No mode: a chmod follows a link that was put in the socket's place, and a umask is for all
  // threads. The owner and root may connect.
  server.listen({ path: folder.addressOf(mine), exclusive: true });
  await once(server, "listening");
  const highest = folder.highest();
  const answer = await ask(folder, highest);
  if (answer !== "dead") return answer;
  const next = highest + 1;
  const isFirst = folder.link(mine, next) && folder.highest() === next;
  if (!isFirst) return ask(folder, folder.highest());
  const entry = new Entry(folder.pathOf(next));
  const reached = await ask(folder, next);
  if (!entry.isThere()) return "dead"; // it was swept away; the file system is not to blame
  if (reached === "dead") {
    fs.rmSync(entry.path); // nobody can win here, so nobody can reuse its number
    throw unsupportedError(folder.directory, "the linked socket does not reach its process");
  }
  const isOther =
    typeof reached === "object" && !(isThisProcess(reached) && reached.since === since);
  if (isOther) return reached;
  folder.removeBelow(next);
  return entry;
}

/** This user may not write to the folder. */
function refusedError(directory: string, cause: unknown): PlantStoreError {
  let owner = "another user";
  try {
    owner = `user ${fs.statSync(directory).uid}`;
  } catch {} // nor look at it
  const user = `this process runs as user ${process.geteuid?.()}, who may not write to it`;
  const message = `Cannot use "${directory}": it belongs to ${owner}, and ${user}; run as its owner`;
  return new PlantStoreError("io_error", message, { cause });
}

/** The errors of a file system without sockets or hard links. */
const UNSUPPORTED = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"];

function unsupportedError(directory: string, why: string): PlantStoreError {
  const kind = unreliableFileSystem(directory);
  const fileSystem = kind === undefined ? "its file system" : `its file system (${kind})`;
  return new PlantStoreError(
    "io_error",
    `Cannot lock "${directory}": ${fileSystem} does not support linked Unix sockets, by which ` +
      `one process at a time holds a data directory: ${why}; ` +
      "use a folder on a local file system, such as ext4 or XFS",
  );
}

function lostError(entry: string): Error {
  return new Error(
    `"${entry}" was removed or replaced while this process held it, so another process may write ` +
      "the same data; start again, and find the program that removes lock files",
  );
}

function answerWith({ command, durableBytes }: LockOptions, since: string): net.Server {
  const server = net.createServer((socket) => {
    socket.on("error", () => socket.destroy()); // the process that asked has ended
    const bytes = durableBytes?.();
    const holder: LockHolder = {
      pid: process.pid,
      host: os.hostname(),
      command,
      since,
      ...(bytes === undefined ? {} : { durableBytes: bytes }),
    };
    // A process that asks and does not hang up must not delay `close`.
    socket.end(`${JSON.stringify(holder)}\n`, () => socket.destroy());
  });
  server.unref();
  // Without a free descriptor (EMFILE) nobody is answered; the lock is held all the same.
  server.on("error", () => {});
  return server;
}

/** Asks the socket with this number; no socket has the number 0. */
async function ask(folder: LockFolder, number: number): Promise<Answer> {
  const address = folder.addressOf(number);
  const asking = new AbortController();
  const timer = clock.setTimeout(() => asking.abort(), ANSWER_TIMEOUT_MS);
  try {
    const answer = await connect(address, asking.signal);
    // A holder that hangs up may be closing its lock; then it is dead at the second look.
    return answer === "silent" ? await connect(address, asking.signal) : answer;
  } finally {
    clock.clearTimeout(timer);
  }
}

/** Only a refused connection or a missing file proves a holder dead. */
const DEAD = ["ECONNREFUSED", "ENOENT"];
/** Its queue is full, it ended while it was connected, or it takes too long: it was alive. */
const SILENT = ["EAGAIN", "ECONNRESET", "ERR_STREAM_PREMATURE_CLOSE", "ABORT_ERR"];

async function connect(address: string, signal: AbortSignal): Promise<Answer> {
  const socket = net.connect({ path: address, signal }).setEncoding("utf8");
  try {
    let answer = "";
    for await (const text of socket) {
      answer += text;
      if (answer.length > ANSWER_CHARACTERS_MAX) return "silent";
    }
    return parseHolder(answer) ?? "silent";
  } catch (error) {
    const code = systemCode(error) ?? "";
    if (DEAD.includes(code)) return "dead";
    if (SILENT.includes(code)) return "silent";
    throw error;
  }
}

function parseHolder(line: string): LockHolder | undefined {
  try {
    const holder = JSON.parse(line);
    const { pid, host, command, since, durableBytes = 0 } = holder;
    const isHolder =
      [pid, durableBytes].every((count) => Number.isSafeInteger(count) && count >= 0) &&
      [host, command, since].every((text) => typeof text === "string");
    return isHolder ? holder : undefined;
  } catch {
    return undefined;
  }
}

function lockedError(directory: string, holder: Answer): PlantStoreError {
  return new PlantStoreError(
    "locked",
    `Cannot use "${directory}": ${describeHolder(directory, holder)}`,
  );
}

function describeHolder(directory: string, holder: Answer): string {
  if (typeof holder === "string") {
    const search = `find it with: fuser "${directory}"/*lock.*`;
    return `it is in use by a process that does not answer (${search}); stop it, or wait for it`;
  }
  const { pid, host, command, since } = holder;
  if (isThisProcess(holder)) {
    return (
      `this process (${pid}) has it open already, as "${command}"; ` +
      "close that one first, or use it for both"
    );
  }
  const place = host === os.hostname() ? "" : ` on "${host}"`; // a pid is valid on its own machine only
  const details = `process ${pid}${place}, since ${since}`;
  return `it is in use by "${command}" (${details}); stop that process, or wait for it`;
}

function isThisProcess({ pid, host }: LockHolder): boolean {
  return pid === process.pid && host === os.hostname();
}

/** A file of the lock. */
class Entry {
  readonly path: string;
  readonly #identity: FileState;

  constructor(entryPath: string) {
    this.path = entryPath;
    this.#identity = fs.lstatSync(entryPath, { bigint: true });
  }

  /** Whether the folder still has this very file; also true if the folder cannot be read. */
  isThere(): boolean {
    try {
      const found = fs.lstatSync(this.path, { bigint: true, throwIfNoEntry: false });
      return found !== undefined && isSameFile(found, this.#identity);
    } catch {
      return true;
    }
  }
}

/** What a temporary name has in place of the number. */
const TEMPORARY = "new-";

/**
 * The files of one lock in a data directory, `<name>.N`, or a temporary name in place of N. A number
 * is taken by `link`, which fails if the number is already taken, so one process wins it.
 */
class LockFolder {
  readonly directory: string;
  readonly #name: string;
  #fd: number | undefined;

  constructor(directory: string, name: string) {
    this.directory = path.resolve(directory);
    this.#name = name;
  }

  pathOf(suffix: number | string): string {
    return path.join(this.directory, `${this.#name}.${suffix}`);
  }

  /** The address of a socket: a longer path goes through the descriptor of the open folder. */
  addressOf(suffix: number | string): string {
    const plain = this.pathOf(suffix);
    if (Buffer.byteLength(plain) <= SOCKET_PATH_BYTES_MAX || process.platform !== "linux") {
      return plain;
    }
    this.#fd ??= fs.openSync(this.directory, fs.constants.O_RDONLY);
    return `/proc/self/fd/${this.#fd}/${path.basename(plain)}`;
  }

  /** The highest lock number there is; 0 for none. */
  highest(): number {
    return Math.max(0, ...this.#suffixes().map(numberOf));
  }

  /** Takes the number for a socket with a temporary name; false if another process was faster. */
  link(temporary: string, number: number): boolean {
    try {
      fs.linkSync(this.pathOf(temporary), this.pathOf(number));
      return true;
    } catch (error) {
      // ENOENT: the winner has removed our temporary name.
      const code = systemCode(error);
      if (code === "EEXIST" || code === "ENOENT") return false;
      throw error;
    }
  }

  /** Removes lower numbers and temporary names, also those of killed processes. */
  removeBelow(number: number): void {
    const lower = this.#suffixes().filter((suffix) => numberOf(suffix) < number);
    for (const suffix of lower) fs.rmSync(this.pathOf(suffix), { force: true });
  }

  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
    this.#fd = undefined;
  }

  #suffixes(): string[] {
    const prefix = `${this.#name}.`;
    const names = fs.readdirSync(this.directory).filter((name) => name.startsWith(prefix));
    const suffixes = names.map((name) => name.slice(prefix.length));
    return suffixes.filter(
      (suffix) => /^[1-9][0-9]*$/.test(suffix) || suffix.startsWith(TEMPORARY),
    );
  }
}

function numberOf(suffix: string): number {
  return suffix.startsWith(TEMPORARY) ? 0 : Number(suffix);
}

/** The locks of this program. */
export let locks: Locks = { acquire, askDurableBytes };

/** For a simulation. @internal */
export function replaceLocks(other: Locks): void {
  locks = other;
}
