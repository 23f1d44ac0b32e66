/**
 * The lock of a data directory: at most one living process holds it.
 *
 * The lock is a listening Unix socket named `<name>.N`, linked into the folder
 * under the next free number; the highest number is the holder. The kernel
 * closes the socket with the process, however it died, so a dead holder never
 * blocks anyone, and whoever connects reads one line about a living one. Only
 * "connection refused" proves a holder dead, so a holder first proves that its own
 * entry does reach it: on FUSE file systems a linked socket may be another file.
 * The highest socket file is never removed, not even at release: a slower rival
 * could otherwise reuse its number and both would believe they won. A holder whose
 * entry was removed all the same has lost the lock, and never links it anew.
 *
 * Trust. A socket that accepts connections counts as a living process, of any user: at worst it
 * keeps others out. What that process says, and so how much of the log is durable, is trusted
 * only if the socket's owner may decide about the data anyway: the folder's owner, root, the user
 * that asks, and everybody whom the folder's owner lets write there except "others". A local user who
 * binds the next name in a folder that all may write to is named as the reason of a refusal. An
 * answer has the right types and 4 KiB at most, and comes within 1 s in all, or there is none.
 *
 * Not safe on network file systems, where sockets do not reach other machines; the
 * appends of log/file keep two processes from overwriting each other even there.
 */
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { describeSystemError, ioError, unpromisedFileSystem } from "./file.ts";
import { type Entry, SocketFolder } from "./socket-folder.ts";

/** What a holder tells about itself. */
interface LockHolder {
  readonly pid: number;
  /** The machine, or container, in which that number means something. */
  readonly host: string;
  /** What it does, e.g. `serve`. */
  readonly command: string;
  /** ISO 8601, UTC. */
  readonly since: string;
  /** The length of the log that is known to be on disk; absent where there is none. */
  readonly durableBytes?: number;
}

export interface LockOptions {
  /** Locks of different names do not meet. */
  readonly name: string;
  /** Named to whoever is turned away. */
  readonly command: string;
  /** How long to wait for a living holder to go; 0 turns away at once. */
  readonly waitMs?: number;
  /** Asked whenever somebody connects. */
  readonly durableBytes?: () => number | undefined;
}

/** How long a holder may take for its whole answer before it counts as living and silent. */
const ANSWER_TIMEOUT_MS = 1000;
/** An answer is shorter by far, except with a host's name that is longer than any. */
const ANSWER_CHARACTERS_MAX = 4096;
/** Of rivals that were faster and died at once; more in a row are no accident. */
const DEAD_RIVALS_MAX = 10;
/** Between two looks at a lock that somebody holds for milliseconds. */
const RETRY_MS = 10;
/** How often a holder looks whether its entry is still there. */
const LOOK_INTERVAL_MS = 500;

export class DirectoryLock {
  /** Resolves, never rejects, when the entry of this lock was removed or replaced. */
  readonly lost: Promise<Error>;
  readonly #folder: SocketFolder;
  readonly #server: net.Server;
  readonly #looking: NodeJS.Timeout;

  private constructor({ folder, server, entry }: Taken) {
    this.#folder = folder;
    this.#server = server;
    let report: (loss: Error) => void = () => {};
    this.lost = new Promise((resolve) => {
      report = resolve;
    });
    this.#looking = setInterval(() => {
      if (folder.isStill(entry)) return;
      clearInterval(this.#looking);
      report(lostError(path.join(folder.directory, entry.name)));
    }, LOOK_INTERVAL_MS);
    this.#looking.unref(); // a lock alone keeps no process alive
  }

  /** @throws PlantStoreError `locked`, naming the holder; `io_error` if sockets or links do not work. */
  static async acquire(directory: string, options: LockOptions): Promise<DirectoryLock> {
    const deadline = performance.now() + (options.waitMs ?? 0);
    for (let deadRivals = 0; ; ) {
      const attempt = await tryAcquire(directory, options);
      if ("server" in attempt) return new DirectoryLock(attempt);
      if (attempt.holder === "dead" && ++deadRivals < DEAD_RIVALS_MAX) continue;
      if (performance.now() >= deadline) throw lockedError(directory, attempt.holder);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** Lets the next process in. */
  async release(): Promise<void> {
    clearInterval(this.#looking);
    await new Promise((resolve) => this.#server.close(resolve));
    this.#folder.close();
  }
}

/**
 * How much of a log the process that writes it knows to be on disk; `undefined`
 * while there is none.
 *
 * @throws PlantStoreError `locked` when a living holder does not answer within
 * 1 s, is another user's, or does not know yet.
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
  const folder = new SocketFolder(directory, name);
  try {
    for (let highest = folder.highest(); ; ) {
      const answer = highest === 0 ? "dead" : await ask(folder, highest);
      if (typeof answer === "object") return answer;
      if (answer !== "dead") throw lockedError(directory, answer);
      const asked = highest;
      highest = folder.highest();
      if (highest === asked) return undefined; // else somebody has taken the next number meanwhile
    }
  } catch (cause) {
    if (cause instanceof PlantStoreError) throw cause;
    throw ioError(`Cannot ask who uses "${directory}"`, cause);
  } finally {
    folder.close();
  }
}

/** A lock that was won. */
interface Taken {
  readonly folder: SocketFolder;
  readonly server: net.Server;
  readonly entry: Entry;
}

type Attempt = Taken | { readonly holder: Answer };

/** What somebody else's socket said; `foreign`: of a user who is not believed. */
type Answer = LockHolder | "silent" | "foreign" | "dead";

async function tryAcquire(directory: string, options: LockOptions): Promise<Attempt> {
  if (!fs.existsSync(directory)) {
    throw new PlantStoreError(
      "io_error",
      `Cannot use "${directory}": there is no such folder; name the data directory with --data`,
    );
  }
  const folder = new SocketFolder(directory, options.name);
  const since = new Date().toISOString();
  const server = answerWith(options, since);
  try {
    const claimed = await claim(folder, server, since);
    if (typeof claimed === "object" && "entry" in claimed) return { server, folder, ...claimed };
    await abandon(server, folder);
    return { holder: claimed };
  } catch (cause) {
    await abandon(server, folder);
    if (cause instanceof PlantStoreError) throw cause;
    throw isUnsupported(cause)
      ? unsupportedError(directory, describeSystemError(cause))
      : ioError(`Cannot lock "${directory}"`, cause);
  }
}

async function abandon(server: net.Server, folder: SocketFolder): Promise<void> {
  if (server.listening) await new Promise((resolve) => server.close(resolve));
  folder.close();
}

/** Either wins the lock or says who has it: a `dead` one has lost it again. */
async function claim(
  folder: SocketFolder,
  server: net.Server,
  since: string,
): Promise<{ readonly entry: Entry } | Answer> {
  const mine = folder.temporaryName();
  await listen(server, folder.pathOf(mine));
  folder.give(mine);
  const highest = folder.highest();
  if (highest > 0) {
    const answer = await ask(folder, highest);
    if (answer !== "dead") return answer;
  }
  const next = highest + 1;
  if (!folder.link(mine, next)) return whoWas(folder);
  if (folder.highest() > next) {
    folder.remove(mine);
    return whoWas(folder);
  }
  const entry = folder.entry(next);
  const reached = await ask(folder, next);
  if (!folder.isStill(entry)) return "dead"; // it was swept away: that is no file system's doing
  if (reached === "dead") {
    folder.remove(entry.name); // nobody wins here, so nobody can mistake its number
    throw unsupportedError(folder.directory, "the linked socket does not reach its process");
  }
  const isOther = typeof reached === "object" && !isSelf(reached, since);
  if (isOther) return reached;
  folder.removeAllBut(next);
  return { entry };
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

/** The rival that was faster; it may be gone again by now, and is still not us. */
function whoWas(folder: SocketFolder): Promise<Answer> {
  return ask(folder, Math.max(folder.highest(), 1));
}

function answerWith({ command, durableBytes }: LockOptions, since: string): net.Server {
  const server = net.createServer((socket) => {
    socket.on("error", () => socket.destroy()); // whoever asked has gone
    const bytes = durableBytes?.();
    const holder: LockHolder = {
      pid: process.pid,
      host: os.hostname(),
      command,
      since,
      ...(bytes === undefined ? {} : { durableBytes: bytes }),
    };
    // Destroyed, because one that asks and does not hang up must not hold a release up.
    socket.end(`${JSON.stringify(holder)}\n`, () => socket.destroy());
  });
  server.unref(); // a lock alone keeps no process alive
  // Without a descriptor to spare (EMFILE) nobody is answered; the lock holds all the same.
  server.on("error", () => {});
  return server;
}

function listen(server: net.Server, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    // No mode: a chmod follows a link that was put in the socket's place, and a umask is for all
    // threads. The owner may connect, and so may root.
    server.listen({ path: address, exclusive: true }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** Asks the socket with this number, and believes what its header says. */
async function ask(folder: SocketFolder, number: number): Promise<Answer> {
  const answer = await connect(folder.address(number));
  return typeof answer === "object" && !folder.isTrusted(number) ? "foreign" : answer;
}

/** Asks a socket. Only a refused connection or a missing file proves its holder dead. */
function connect(address: string): Promise<LockHolder | "silent" | "dead"> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = net.connect(address);
    const deadline = setTimeout(() => settle("silent"), ANSWER_TIMEOUT_MS);
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      answer += text;
      if (answer.length > ANSWER_CHARACTERS_MAX) settle("silent");
    });
    socket.on("end", () => settle(parseHolder(answer)));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ENOENT") settle("dead");
      // Its queue is full, or it went while we were connected: it was alive.
      else if (error.code === "EAGAIN" || error.code === "ECONNRESET") settle("silent");
      else {
        clearTimeout(deadline);
        reject(error);
      }
    });
    const settle = (result: LockHolder | "silent" | "dead") => {
      clearTimeout(deadline);
      socket.destroy();
      resolve(result);
    };
  });
}

function parseHolder(line: string): LockHolder | "silent" {
  try {
    const holder: unknown = JSON.parse(line);
    return isHolder(holder) ? holder : "silent";
  } catch {
    return "silent";
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

function isSelf(holder: LockHolder, since: string): boolean {
  return isThisProcess(holder) && holder.since === since;
}

function isThisProcess({ pid, host }: LockHolder): boolean {
  return pid === process.pid && host === os.hostname();
}

/** A process number says nothing to whoever looks for it in another container. */
function placeOf({ host }: LockHolder): string {
  return host === os.hostname() ? "" : ` on "${host}"`;
}
