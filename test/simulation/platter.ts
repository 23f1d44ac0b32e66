/**
 * What is on a simulated disk: the files and folders that processes see, apart from what a power cut leaves.
 *
 * Invariants. Names change by operations that are kept in order until a sync of a folder; a power cut keeps the
 * first few of them, so a file never survives its folder. A rename is one operation. A power cut gives another
 * platter; a kill leaves the same one. A program reaches the platter only through a SimulatedDisk; other programs
 * change it directly, and sync nothing.
 */
import os from "node:os";
import path from "node:path";
import { chooseCount, type FileNode, SECTOR_BYTES } from "./inode.ts";
import type { Random } from "./random.ts";
import type { RuleBook } from "./rules.ts";

export class SystemError extends Error {
  readonly code: string;
  readonly errno: number;

  constructor(code: string, call: string, filePath = "") {
    super(`${code}: simulated, ${call} '${filePath}'`);
    this.code = code;
    this.errno = -((os.constants.errno as Record<string, number>)[code] ?? 0);
  }
}

export type PlatterNode = FileNode | { readonly kind: "folder" | "socket" };

/** Names that change together, and what each leads to then. */
type NameOperation = readonly { readonly name: string; readonly node: PlatterNode | undefined }[];

export class Platter {
  readonly rules: RuleBook;
  bytesMax = Number.POSITIVE_INFINITY;
  #names = new Map<string, PlatterNode>([["/", { kind: "folder" }]]);
  #durableNames = new Map(this.#names);
  #pending: NameOperation[] = [];

  constructor(rules: RuleBook) {
    this.rules = rules;
  }

  find(filePath: string): PlatterNode | undefined {
    return this.#names.get(path.resolve(filePath));
  }

  file(filePath: string): FileNode | undefined {
    const node = this.find(filePath);
    return node?.kind === "file" ? node : undefined;
  }

  /** The names in a folder. @throws SystemError unless there is one. */
  list(folder: string): string[] {
    this.#assertFolder(folder, "scandir");
    const isIn = (name: string) => path.dirname(name) === path.resolve(folder) && name !== "/";
    return [...this.#names.keys()].filter(isIn).map((name) => path.basename(name));
  }

  #assertFolder(folder: string, call: string): void {
    const node = this.find(folder);
    if (node?.kind === "folder") return;
    throw new SystemError(node === undefined ? "ENOENT" : "ENOTDIR", call, folder);
  }

  create(filePath: string, node: PlatterNode, call = "open"): void {
    this.#assertFolder(path.dirname(filePath), call);
    if (this.find(filePath) !== undefined) throw new SystemError("EEXIST", call, filePath);
    this.#change([{ name: filePath, node }]);
  }

  rename(from: string, to: string): void {
    const node = this.find(from);
    this.#assertFolder(path.dirname(to), "rename");
    if (node === undefined) throw new SystemError("ENOENT", "rename", from);
    if (this.find(to)?.kind === "folder") throw new SystemError("EISDIR", "rename", to);
    this.#change([
      { name: from, node: undefined },
      { name: to, node },
    ]);
  }

  unlink(filePath: string): void {
    const kind = this.find(filePath)?.kind;
    if (kind === "folder") throw new SystemError("EISDIR", "unlink", filePath);
    if (kind !== undefined) this.#change([{ name: filePath, node: undefined }]);
  }

  removeFolder(folder: string): void {
    if (this.list(folder).length > 0) throw new SystemError("ENOTEMPTY", "rmdir", folder);
    this.#change([{ name: folder, node: undefined }]);
  }

  #change(operation: NameOperation): void {
    const resolved = operation.map(({ name, node }) => ({ name: path.resolve(name), node }));
    setNames(this.#names, resolved);
    this.#pending.push(resolved);
  }

  #files(): FileNode[] {
    return [...this.#names.values()].filter((node) => node.kind === "file");
  }

  get bytesUsed(): number {
    return this.#files().reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Appends bytes, and returns how many there was room for. @throws SystemError `ENOSPC` if there was none. */
  append(node: FileNode, bytes: Buffer): number {
    let count = bytes.length;
    const isBounded = this.bytesMax < Number.POSITIVE_INFINITY;
    const room = isBounded ? Math.max(0, this.bytesMax - this.bytesUsed) : count;
    // What does not fit begins with a sector.
    if (room < count) count = Math.max(0, room - ((node.bytes.length + room) % SECTOR_BYTES));
    if (count < bytes.length) this.rules.count(count === 0 ? "room: none" : "room: a short append");
    if (count === 0 && bytes.length > 0) throw new SystemError("ENOSPC", "write");
    node.append(bytes.subarray(0, count));
    return count;
  }

  /** Makes the names in a folder durable, and what happened to other names before. */
  commitNames(folder: string): void {
    const isIn = ({ name }: NameOperation[number]) => path.dirname(name) === path.resolve(folder);
    this.#commit(this.#pending.findLastIndex((operation) => operation.some(isIn)) + 1);
  }

  /** A sync of a folder fails: the first few changes of names may be durable all the same. */
  failNames(random: Random): void {
    this.#commit(chooseCount(this.#pending.length, random));
  }

  #commit(count: number): void {
    setNames(this.#durableNames, this.#pending.splice(0, count).flat());
  }

  commitAll(): void {
    this.#commit(this.#pending.length);
    for (const file of this.#files()) file.commitAll();
  }

  /** Whether these bytes of the file survive every crash: its name, its length and its content. */
  keeps(filePath: string, bytes: Buffer, position = 0): boolean {
    const isOnPath = ({ name }: NameOperation[number]) => `${filePath}/`.startsWith(`${name}/`);
    const node = this.#durableNames.get(filePath);
    return (
      node?.kind === "file" && node.keeps(bytes, position) && !this.#pending.flat().some(isOnPath)
    );
  }

  /** Whether a file holds what the disk will never get: only a power cut shows what is there. */
  get hasLost(): boolean {
    return this.#files().some((file) => file.hasLost);
  }

  /** What a process that starts after a power cut finds. */
  afterCut(random: Random): Platter {
    const kept = chooseCount(this.#pending.length, random);
    if (kept < this.#pending.length) this.rules.count("cut: the last names are lost");
    const names = new Map(this.#durableNames);
    setNames(names, this.#pending.slice(0, kept).flat());
    const after = new Platter(this.rules);
    for (const [name, node] of names) {
      const isFile = node.kind === "file";
      after.#names.set(name, isFile ? node.afterCut(random.fork(name), this.rules) : { ...node });
    }
    after.#durableNames = new Map(after.#names);
    return after;
  }
}

function setNames(names: Map<string, PlatterNode>, changes: NameOperation): void {
  for (const { name, node } of changes) {
    if (node === undefined) names.delete(name);
    else names.set(name, node);
  }
}
