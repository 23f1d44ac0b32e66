/**
 * The lock of a data directory: at most one living process holds it.
 *
 * The lock is a listening Unix socket, linked into the folder as `<name>.N` under the next free
 * number; the highest number is the holder. The kernel closes the socket with the process, however
 * it died, so a dead holder never blocks anyone, and a process that connects reads one line about a
 * living one. Only "connection refused" proves a holder dead, so a holder first proves that its own
 * entry does reach it: on FUSE file systems a linked socket may be another file. The highest entry
 * is never removed, not even by `close`: a slower rival could otherwise reuse its number, and both
 * would believe that they won. A holder whose entry was removed all the same has lost the lock, and
 * never links it anew.
 *
 * Trust. A socket that accepts connections counts as a living process, of any user: at worst it
 * keeps others out. What that process says, and so how much of the log is durable, is trusted only
 * if the owner of the socket may decide about the data anyway: the folder's owner, root, the user
 * that asks, and everybody whom the folder's owner lets write there except "others". An answer has
 * the right types and 4 KiB at most, and comes within 1 s in all, or there is none.
 *
 * Not safe on network file systems, where sockets do not reach other machines; the appends of
 * log/file keep two processes from overwriting each other even there.
 */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { SOCKET_PATH_BYTES_MAX } from "../core/options.ts";
import { giveSocketToFolderOwner, unpromisedFileSystem } from "./folder.ts";
import { describeSystemError, ioError } from "./system-error.ts";

/** What a holder reports of itself. */
interface LockHolder {
  readonly pid: number;
  /** The machine, or container, in which that number means something. */
  readonly host: string;
  /** What it does, e.g. `serve`. */
  readonly command: string;
  /** ISO 8601, UTC. */
  readonly since: string;
  /** The length of the log that is known to be on disk; absent if none is open yet. */
  readonly durableBytes?: number;
}

export interface LockOptions {
  /** Locks of different names do not meet. */
  readonly name: string;
  /** Named in the error of a process that is turned away. */
  readonly command: string;
  /** How long to wait for a living holder to go. Default: 0. */
  readonly waitMs?: number;
  /** Called whenever another process asks. */
  readonly durableBytes?: () => number | undefined;
}

/** How long a holder may take for its whole answer before it counts as living and silent. */
const ANSWER_TIMEOUT_MS = 1000;
/** An answer is shorter by far, except with a host's name that is longer than any. */
const ANSWER_CHARACTERS_MAX = 4096;
/** Of rivals that were faster and died at once; more in a row are no accident. */
const DEAD_RIVALS_MAX = 10;
/** Between two attempts at a lock that is held for milliseconds. */
const RETRY_MS = 10;
/** How often a holder checks that its entry is still there. */
const CHECK_INTERVAL_MS = 500;

export class DirectoryLock {
  /** Resolves, never rejects, when the entry of this lock was removed or replaced. */
  readonly lost: Promise<Error>;
  readonly #folder: LockFolder;
  readonly #server: net.Server;
  readonly #checking: NodeJS.Timeout;

  private constructor(folder: LockFolder, server: net.Server, entry: Entry) {
    this.#folder = folder;
    this.#server = server;
    let report: (loss: Error) => void = () => {};
    this.lost = new Promise((resolve) => {
      report = resolve;
    });
    this.#checking = setInterval(() => {
      if (folder.isStill(entry)) return;
      clearInterval(this.#checking);
      report(lostError(folder.pathOf(entry.name)));
    }, CHECK_INTERVAL_MS);
    this.#checking.unref(); // a lock alone keeps no process alive
  }

  /** @throws PlantStoreError `locked`, naming the holder; `io_error` if sockets or links do not work. */
  static async acquire(directory: string, options: LockOptions): Promise<DirectoryLock> {
    const deadline = performance.now() + (options.waitMs ?? 0);
    for (let deadRivals = 0; ; ) {
      const result = await DirectoryLock.#tryAcquire(directory, options);
      if (result instanceof DirectoryLock) return result;
      if (result === "dead" && ++deadRivals < DEAD_RIVALS_MAX) continue;
      if (performance.now() >= deadline) throw lockedError(directory, result);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** Returns what the holder answers if there is one. */
  static async #tryAcquire(
    directory: string,
    options: LockOptions,
  ): Promise<DirectoryLock | Answer> {
    if (!fs.existsSync(directory)) {
      throw new PlantStoreError(
        "io_error",
        `Cannot use "${directory}": there is no such folder; name the data directory with --data`,
      );
    }
    const folder = new LockFolder(directory, options.name);
    const since = new Date().toISOString();
    const server = answerWith(options, since);
    try {
      const claimed = await claim(folder, server, since);
      if (isEntry(claimed)) return new DirectoryLock(folder, server, claimed);
      await close(server, folder);
      return claimed;
    } catch (cause) {
      await close(server, folder);
      if (cause instanceof PlantStoreError) throw cause;
      throw isUnsupported(cause)
        ? unsupportedError(directory, describeSystemError(cause))
        : ioError(`Cannot lock "${directory}"`, cause);
    }
  }

  /** Lets the next process in. */
  async close(): Promise<void> {
    clearInterval(this.#checking);
    await close(this.#server, this.#folder);
  }
}

async function close(server: net.Server, folder: LockFolder): Promise<void> {
  await new Promise((resolve) => server.close(resolve));
  folder.close();
}

/**
 * How much of a log the process that writes it knows to be on disk; `undefined` if there is none.
 *
 * @throws PlantStoreError `locked` like `askHolder`, and when the holder does not know yet.
 */
export async function askDurableBytes(
  directory: string,
  name: string,
): Promise<number | undefined> {
  const holder = await askHolder(directory, name);
  if (holder !== undefined && holder.durableBytes === undefined) {
    throw lockedError(directory, holder);
  }
  return holder?.durableBytes;
}

/**
 * Who holds the lock, or `undefined` when nobody does.
 *
 * @throws PlantStoreError `locked` when a living holder does not answer within 1 s, or is another
 * user's.
 */
export async function askHolder(directory: string, name: string): Promise<LockHolder | undefined> {
  const folder = new LockFolder(directory, name);
  try {
    for (let highest = folder.highest(); ; ) {
      const answer = highest === 0 ? "dead" : await ask(folder, highest);
      if (typeof answer === "object") return answer;
      if (answer !== "dead") throw lockedError(directory, answer);
      const asked = highest;
      highest = folder.highest();
      if (highest === asked) return undefined; // else a process has taken the next number meanwhile
    }
  } catch (cause) {
    if (cause instanceof PlantStoreError) throw cause;
    throw ioError(`Cannot ask who uses "${directory}"`, cause);
  } finally {
    folder.close();
  }
}

/** What another process's socket said; `foreign`: its user is not trusted. */
type Answer = LockHolder | "silent" | "foreign" | "dead";

/** Wins the lock, or returns what its holder answers; a `dead` holder has lost it again. */
async function claim(
  folder: LockFolder,
  server: net.Server,
  since: string,
): Promise<Entry | Answer> {
  const mine = folder.temporaryName();
  await listen(server, folder.addressOf(mine));
  giveSocketToFolderOwner(folder.pathOf(mine));
  const highest = folder.highest();
  if (highest > 0) {
    const answer = await ask(folder, highest);
    if (answer !== "dead") return answer;
  }
  const next = highest + 1;
  if (!folder.link(mine, next)) return askWinner(folder);
  if (folder.highest() > next) {
    folder.remove(mine);
    return askWinner(folder);
  }
  const entry = folder.entry(next);
  const reached = await ask(folder, next);
  if (!folder.isStill(entry)) return "dead"; // it was swept away: that is no file system's doing
  if (reached === "dead") {
    folder.remove(entry.name); // nobody wins here, so nobody can mistake its number
    throw unsupportedError(folder.directory, "the linked socket does not reach its process");
  }
  const isOther =
    typeof reached === "object" && !(isThisProcess(reached) && reached.since === since);
  if (isOther) return reached;
  folder.removeBelow(next);
  return entry;
}

/** Asks the rival that was faster; it may be gone again by now, and is still not us. */
function askWinner(folder: LockFolder): Promise<Answer> {
  return ask(folder, Math.max(folder.highest(), 1));
}

/** What a file system without sockets or hard links says when one is made. */
const UNSUPPORTED: readonly (string | undefined)[] = [
  "EPERM",
  "ENOTSUP",
  "EOPNOTSUPP",
  "ENOSYS",
  "EINVAL",
];

function isUnsupported(cause: unknown): boolean {
  return UNSUPPORTED.includes((cause as NodeJS.ErrnoException).code);
}

function unsupportedError(directory: string, why: string): PlantStoreError {
  const kind = unpromisedFileSystem(directory);
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
      "the same data; never remove a lock file: start again, and look which program removes it",
  );
}

function answerWith({ command, durableBytes }: LockOptions, since: string): net.Server {
  const server = net.createServer((socket) => {
    socket.on("error", () => socket.destroy()); // the process that asked is gone
    const bytes = durableBytes?.();
    const holder: LockHolder = {
      pid: process.pid,
      host: os.hostname(),
      command,
      since,
      ...(bytes === undefined ? {} : { durableBytes: bytes }),
    };
    // Destroyed, because a process that asks and does not hang up must not delay `close`.
    socket.end(`${JSON.stringify(holder)}\n`, () => socket.destroy());
  });
  server.unref();
  // Without a descriptor left (EMFILE) nobody is answered; the lock holds all the same.
  server.on("error", () => {});
  return server;
}

async function listen(server: net.Server, address: string): Promise<void> {
  const listening = once(server, "listening");
  // No mode: a chmod follows a link that was put in the socket's place, and a umask is for all
  // threads. The owner may connect, and so may root.
  server.listen({ path: address, exclusive: true });
  await listening;
}

/** Asks the socket with this number. */
async function ask(folder: LockFolder, number: number): Promise<Answer> {
  const address = folder.addressOf(folder.nameOf(number));
  const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  let answer = await connect(address, signal);
  // A holder that hangs up may be closing its lock: then it is gone at the second look.
  if (answer === "silent") answer = await connect(address, signal);
  return typeof answer === "object" && !folder.isTrusted(number) ? "foreign" : answer;
}

/** Only a refused connection or a missing file proves a holder dead. */
const DEAD: readonly (string | undefined)[] = ["ECONNREFUSED", "ENOENT"];
/** Its queue is full, it went while we were connected, or it takes too long: it was alive. */
const SILENT: readonly (string | undefined)[] = [
  "EAGAIN",
  "ECONNRESET",
  "ERR_STREAM_PREMATURE_CLOSE",
  "ABORT_ERR",
];

async function connect(
  address: string,
  signal: AbortSignal,
): Promise<LockHolder | "silent" | "dead"> {
  const socket = net.connect({ path: address, signal }).setEncoding("utf8");
  try {
    let answer = "";
    for await (const text of socket) {
      answer += text;
      if (answer.length > ANSWER_CHARACTERS_MAX) return "silent";
    }
    return parseHolder(answer) ?? "silent";
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (DEAD.includes(code)) return "dead";
    if (SILENT.includes(code)) return "silent";
    throw error;
  }
}

function parseHolder(line: string): LockHolder | undefined {
  try {
    const holder: unknown = JSON.parse(line);
    return isHolder(holder) ? holder : undefined;
  } catch {
    return undefined;
  }
}

function isHolder(answer: unknown): answer is LockHolder {
  if (typeof answer !== "object" || answer === null) return false;
  const { pid, host, command, since, durableBytes = 0 } = answer as Record<string, unknown>;
  const texts = [host, command, since];
  return [pid, durableBytes].every(isCount) && texts.every((text) => typeof text === "string");
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function lockedError(directory: string, holder: Answer): PlantStoreError {
  if (typeof holder !== "string" && isThisProcess(holder)) {
    return new PlantStoreError(
      "locked",
      `Cannot use "${directory}": this process (${holder.pid}) has it open already, as ` +
        `"${holder.command}"; close that one first, or use it for both`,
    );
  }
  if (holder === "foreign") {
    return new PlantStoreError(
      "locked",
      `Cannot use "${directory}": a process of another user holds its lock, and all users may write ` +
        `to this folder, so its answer cannot be trusted; end that process (find it with: ` +
        `fuser "${directory}"/*lock.*), and let nobody else write there (chmod o-w "${directory}")`,
    );
  }
  const who =
    typeof holder === "string"
      ? `a process that does not answer (find it with: fuser "${directory}"/*lock.*)`
      : `"${holder.command}" (process ${holder.pid}${placeOf(holder)}, since ${holder.since})`;
  return new PlantStoreError(
    "locked",
    `Cannot use "${directory}": it is in use by ${who}; stop that process, or wait for it`,
  );
}

function isThisProcess({ pid, host }: LockHolder): boolean {
  return pid === process.pid && host === os.hostname();
}

/** A process number means nothing in another container. */
function placeOf({ host }: LockHolder): string {
  return host === os.hostname() ? "" : ` on "${host}"`;
}

/** A file of the lock. Device and inode distinguish it from a later file of that name. */
interface Entry {
  readonly name: string;
  readonly dev: bigint;
  readonly ino: bigint;
}

function isEntry(claimed: Entry | Answer): claimed is Entry {
  return typeof claimed === "object" && "ino" in claimed;
}

/**
 * The files of one lock in a data directory, by number, at addresses short enough for a socket.
 *
 * Invariant: a number is taken by `link`, which fails if there is one already, so one process wins it.
 */
class LockFolder {
  readonly directory: string;
  readonly #name: string;
  #fd: number | undefined;

  constructor(directory: string, name: string) {
    this.directory = path.resolve(directory);
    this.#name = name;
  }

  temporaryName(): string {
    return `${this.#name}.new-${randomBytes(6).toString("hex")}`;
  }

  nameOf(number: number): string {
    return `${this.#name}.${number}`;
  }

  pathOf(name: string): string {
    return path.join(this.directory, name);
  }

  /** The address of a socket: a longer path goes through the descriptor of the open folder. */
  addressOf(name: string): string {
    const plain = this.pathOf(name);
    if (Buffer.byteLength(plain) <= SOCKET_PATH_BYTES_MAX || process.platform !== "linux") {
      return plain;
    }
    this.#fd ??= fs.openSync(this.directory, fs.constants.O_RDONLY);
    return `/proc/self/fd/${this.#fd}/${name}`;
  }

  /** The highest lock number there is; 0 for none. */
  highest(): number {
    return Math.max(0, ...this.#entries().map(({ number }) => number));
  }

  /** Takes the number for the socket of that name; false when another process was faster. */
  link(name: string, number: number): boolean {
    try {
      fs.linkSync(this.pathOf(name), this.pathOf(this.nameOf(number)));
      return true;
    } catch (error) {
      // ENOENT: the winner has swept our temporary name away.
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EEXIST" || code === "ENOENT") return false;
      throw error;
    }
  }

  /** The file with this number, as it is now. */
  entry(number: number): Entry {
    const name = this.nameOf(number);
    const { dev, ino } = fs.lstatSync(this.pathOf(name), { bigint: true });
    return { name, dev, ino };
  }

  /** Whether the folder still has this very file; also true if it cannot be looked at just now. */
  isStill({ name, dev, ino }: Entry): boolean {
    try {
      const found = fs.lstatSync(this.pathOf(name), { bigint: true, throwIfNoEntry: false });
      return found !== undefined && found.dev === dev && found.ino === ino;
    } catch {
      return true;
    }
  }

  /** Whether the owner of the file with this number may decide about the data (see "Trust"). */
  isTrusted(number: number): boolean {
    const { uid, mode } = fs.statSync(this.directory);
    if ((mode & 0o002) === 0) return true;
    const entry = fs.lstatSync(this.pathOf(this.nameOf(number)), { throwIfNoEntry: false });
    return entry !== undefined && [uid, 0, process.geteuid?.()].includes(entry.uid);
  }

  remove(name: string): void {
    fs.rmSync(this.pathOf(name), { force: true });
  }

  /** Sweeps lower numbers and temporary names, among them those of killed processes. */
  removeBelow(number: number): void {
    for (const entry of this.#entries()) if (entry.number < number) this.remove(entry.name);
  }

  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
    this.#fd = undefined;
  }

  /** This lock's files; a temporary name has the number 0. */
  #entries(): { readonly name: string; readonly number: number }[] {
    const prefix = `${this.#name}.`;
    return fs.readdirSync(this.directory).flatMap((name) => {
      if (!name.startsWith(prefix)) return [];
      const suffix = name.slice(prefix.length);
      if (/^[1-9][0-9]*$/.test(suffix)) return [{ name, number: Number(suffix) }];
      return suffix.startsWith("new-") ? [{ name, number: 0 }] : [];
    });
  }
}
