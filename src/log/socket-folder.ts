/**
 * A data directory as its lock sees it: socket files by number, reachable by
 * addresses short enough for a socket.
 *
 * Invariant: an entry is taken by `link`, which fails where there is one
 * already, so a number is won by one process only. Who holds the lock is not
 * known here (see log/lock).
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { SOCKET_PATH_BYTES_MAX } from "../core/options.ts";
import { giveSocketToFolderOwner } from "./file.ts";

/** A lock's file in the folder. Device and inode distinguish it from a later file of that name. */
export interface Entry {
  readonly name: string;
  readonly dev: bigint;
  readonly ino: bigint;
}

export class SocketFolder {
  readonly directory: string;
  readonly #name: string;
  #fd: number | undefined;

  constructor(directory: string, name: string) {
    this.directory = path.resolve(directory);
    this.#name = name;
  }

  /** Where a client connects to the lock with this number. */
  address(number: number): string {
    return this.pathOf(`${this.#name}.${number}`);
  }

  temporaryName(): string {
    return `${this.#name}.new-${randomBytes(6).toString("hex")}`;
  }

  /**
   * The path of an entry, for a socket address. Those hold 107 bytes: a longer
   * path goes through the descriptor of the open folder.
   */
  pathOf(entry: string): string {
    const plain = path.join(this.directory, entry);
    if (Buffer.byteLength(plain) <= SOCKET_PATH_BYTES_MAX || process.platform !== "linux") {
      return plain;
    }
    this.#fd ??= fs.openSync(this.directory, fs.constants.O_RDONLY);
    return `/proc/self/fd/${this.#fd}/${entry}`;
  }

  /** Has the folder's owner, too, connect to a socket that root has bound. */
  give(entry: string): void {
    giveSocketToFolderOwner(path.join(this.directory, entry));
  }

  /** The highest lock number there is; 0 for none. */
  highest(): number {
    let highest = 0;
    for (const { number } of this.#entries()) highest = Math.max(highest, number);
    return highest;
  }

  /** Takes the number for the socket of that name; false when somebody was faster. */
  link(entry: string, number: number): boolean {
    try {
      fs.linkSync(path.join(this.directory, entry), this.#pathOfNumber(number));
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
    const { dev, ino } = fs.lstatSync(this.#pathOfNumber(number), { bigint: true });
    return { name: `${this.#name}.${number}`, dev, ino };
  }

  /** Whether the folder has this very file still; also where it cannot be looked at just now. */
  isStill({ name, dev, ino }: Entry): boolean {
    try {
      const options = { bigint: true, throwIfNoEntry: false } as const;
      const found = fs.lstatSync(path.join(this.directory, name), options);
      return found !== undefined && found.dev === dev && found.ino === ino;
    } catch {
      return true;
    }
  }

  /**
   * Whether the file with this number is of somebody who may decide about the data in the folder
   * anyway: its owner, root, the user of this process; anybody if "others" may not write there, because
   * then its owner has let them in.
   */
  isTrusted(number: number): boolean {
    const { uid, mode } = fs.statSync(this.directory);
    if ((mode & 0o002) === 0) return true;
    const entry = fs.lstatSync(this.#pathOfNumber(number), { throwIfNoEntry: false });
    return entry !== undefined && [uid, 0, process.geteuid?.()].includes(entry.uid);
  }

  remove(entry: string): void {
    fs.rmSync(path.join(this.directory, entry), { force: true });
  }

  /** Sweeps lower numbers and temporary names, among them those of killed processes. */
  removeAllBut(number: number): void {
    for (const entry of this.#entries()) if (entry.number < number) this.remove(entry.name);
  }

  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
    this.#fd = undefined;
  }

  #pathOfNumber(number: number): string {
    return path.join(this.directory, `${this.#name}.${number}`);
  }

  /** This lock's files; a temporary name has the number 0. */
  *#entries(): Iterable<{ name: string; number: number }> {
    const prefix = `${this.#name}.`;
    for (const name of fs.readdirSync(this.directory)) {
      if (!name.startsWith(prefix)) continue;
      const suffix = name.slice(prefix.length);
      if (/^[1-9][0-9]*$/.test(suffix)) yield { name, number: Number(suffix) };
      else if (suffix.startsWith("new-")) yield { name, number: 0 };
    }
  }
}
