/**
 * What is on a simulated disk: the files and folders that processes see, apart from what a power cut leaves.
 *
 * Invariants. A file has the bytes that processes see, the bytes that are durable, and the sectors and lengths
 * that are not durable yet. The names in folders change by operations that are kept in order until a sync of
 * the folder; a crash keeps the first few of them, or any of them. `crash` returns another platter, and nothing
 * that was done to the old one afterwards reaches it. A program reaches the platter only through a
 * SimulatedDisk; a test uses it as another program would, which syncs nothing unless it says so.
 */
import os from "node:os";
import path from "node:path";
import type { Random } from "./random.ts";

export const SECTOR_BYTES = 512;

/** The time stamps of a file come from here. */
export interface TimeSource {
  wallMs(): number;
}

/** The system's error. */
export class SystemError extends Error {
  readonly code: string;
  readonly errno: number;
  readonly syscall: string;

  constructor(code: string, syscall: string, filePath?: string) {
    super(`${code}: simulated, ${syscall}${filePath === undefined ? "" : ` '${filePath}'`}`);
    this.code = code;
    this.errno = -((os.constants.errno as Record<string, number>)[code] ?? 0);
    this.syscall = syscall;
  }
}

/** The sectors and the length that a sync covers. */
export interface Dirt {
  readonly sectors: readonly number[];
  readonly step: number;
}

interface SizeStep {
  readonly number: number;
  readonly size: number;
}

export type PlatterNode = FileNode | FolderNode | SocketNode;

abstract class BaseNode {
  readonly ino: bigint;
  nlink = 0;
  mtimeMs = 0;
  ctimeMs = 0;
  mode = 0;

  constructor(ino: bigint) {
    this.ino = ino;
  }
}

/** The socket of a lock: only its name counts. */
export class SocketNode extends BaseNode {
  readonly kind = "other";
}

export class FolderNode extends BaseNode {
  readonly kind = "folder";
  names = new Map<string, PlatterNode>();
  durableNames = new Map<string, PlatterNode>();
}

export class FileNode extends BaseNode {
  readonly kind = "file";
  size = 0;
  durableSize = 0;
  /** Changed since they were last written. */
  readonly dirty = new Set<number>();
  /** The cache believes that they are on disk, after a sync that failed. */
  readonly lost = new Set<number>();
  #bytes: Buffer = Buffer.alloc(0);
  #durable: Buffer = Buffer.alloc(0);
  #steps: SizeStep[] = [];
  #step = 0;

  /** What processes see. Valid until the next change. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.size);
  }

  /** What a cut leaves if nothing else reaches the disk. Valid until the next change. */
  get durable(): Buffer {
    return this.#durable.subarray(0, this.durableSize);
  }

  read(buffer: Buffer, start: number, bytes: number, position: number): number {
    const end = Math.min(this.size, position + bytes);
    return end <= position ? 0 : this.#bytes.copy(buffer, start, position, end);
  }

  write(bytes: Buffer, position: number): void {
    if (bytes.length === 0) return;
    const end = position + bytes.length;
    this.#bytes = withRoom(this.#bytes, end);
    bytes.copy(this.#bytes, position);
    this.#touch(Math.min(position, this.size), end);
    if (end > this.size) this.#resize(end);
  }

  truncate(size: number): void {
    if (size === this.size) return;
    this.#bytes = withRoom(this.#bytes, size);
    if (size < this.size) this.#bytes.fill(0, size, this.size);
    this.#touch(Math.min(size, this.size), Math.max(size, this.size));
    this.#resize(size);
  }

  #touch(start: number, end: number): void {
    const last = Math.ceil(end / SECTOR_BYTES);
    for (let sector = Math.floor(start / SECTOR_BYTES); sector < last; sector++) {
      this.dirty.add(sector);
      this.lost.delete(sector);
    }
  }

  #resize(size: number): void {
    this.size = size;
    this.#steps.push({ number: ++this.#step, size });
  }

  /** All that a sync would make durable now. */
  dirt(): Dirt {
    return { sectors: [...this.dirty], step: this.#step };
  }

  /** What an append of these bytes makes durable. */
  dirtOf(start: number, end: number): Dirt {
    const sectors: number[] = [];
    const last = Math.ceil(end / SECTOR_BYTES);
    for (let sector = Math.floor(start / SECTOR_BYTES); sector < last; sector++) {
      if (this.dirty.has(sector)) sectors.push(sector);
    }
    return { sectors, step: this.#step };
  }

  /** Makes what was dirty durable. */
  commit({ sectors, step }: Dirt): void {
    while (this.#steps[0] !== undefined && this.#steps[0].number <= step) {
      this.durableSize = resizeBytes(this.#durable, this.durableSize, this.#steps[0].size);
      this.#steps.shift();
    }
    for (const sector of sectors) {
      if (!this.dirty.delete(sector)) continue;
      this.#durable = withRoom(this.#durable, Math.min((sector + 1) * SECTOR_BYTES, this.size));
      copySector(this.#bytes, this.#durable, sector, this.size);
    }
    this.#durable = withRoom(this.#durable, this.durableSize);
  }

  commitAll(): void {
    this.commit(this.dirt());
  }

  /** Whether every crash leaves exactly these bytes here. */
  keeps(bytes: Buffer, position: number): boolean {
    const end = position + bytes.length;
    if (end > this.durableSize || end > this.size) return false;
    if (this.#steps.some(({ size }) => size < end)) return false;
    return (
      bytes.equals(this.#bytes.subarray(position, end)) &&
      bytes.equals(this.#durable.subarray(position, end))
    );
  }

  /** What a cut leaves of the file. */
  afterCut(chooses: CutChoice): Buffer {
    const steps = chooses.steps(this.#steps.length);
    let bytes: Buffer = Buffer.from(this.#durable);
    let size = this.durableSize;
    for (const step of this.#steps.slice(0, steps)) size = resizeBytes(bytes, size, step.size);
    bytes = withRoom(bytes, size);
    for (const sector of this.dirty) {
      if (sector * SECTOR_BYTES >= size) continue;
      if (chooses.isWritten()) copySector(this.#bytes, bytes, sector, Math.min(size, this.size));
    }
    return bytes.subarray(0, size);
  }

  /** Takes these bytes as what is durable and seen. */
  load(bytes: Buffer): void {
    this.#bytes = Buffer.from(bytes);
    this.#durable = Buffer.from(bytes);
    this.size = bytes.length;
    this.durableSize = bytes.length;
  }
}

/** What a cut does to everything that is not durable. */
interface CutChoice {
  /** How many of the pending steps happen. */
  steps(count: number): number;
  isWritten(): boolean;
}

function withRoom(bytes: Buffer, size: number): Buffer {
  if (bytes.length >= size) return bytes;
  const larger = Buffer.alloc(Math.max(size, bytes.length * 2, 4 * SECTOR_BYTES));
  bytes.copy(larger);
  return larger;
}

/** What is cut off reads as zeros if the file grows again. */
function resizeBytes(bytes: Buffer, from: number, to: number): number {
  if (to < from) bytes.fill(0, to, from);
  return to;
}

function copySector(from: Buffer, to: Buffer, sector: number, end: number): void {
  const start = sector * SECTOR_BYTES;
  const stop = Math.min(start + SECTOR_BYTES, end);
  if (stop > start) from.copy(to, start, start, stop);
}

interface NameChange {
  readonly folder: FolderNode;
  readonly name: string;
  readonly node: PlatterNode | undefined;
}

/** Changes of names that happen together. */
type NameOperation = readonly NameChange[];

/** `nothing` and `everything` of what is not durable reaches the disk, or what chance decides. */
export type CutKind = "nothing" | "everything" | "chance";

export class Platter {
  readonly root: FolderNode;
  readonly #time: TimeSource;
  #pending: NameOperation[] = [];
  #inodes: bigint;

  constructor(time: TimeSource, inodes = 2n) {
    this.#time = time;
    this.#inodes = inodes;
    this.root = this.#stamp(new FolderNode(1n));
  }

  #stamp<T extends PlatterNode>(node: T): T {
    node.mode = node.kind === "folder" ? 0o040700 : node.kind === "file" ? 0o100600 : 0o140600;
    this.touch(node);
    return node;
  }

  /** Notes that a file was changed now. */
  touch(node: PlatterNode, isContent = true): void {
    const now = Math.floor(this.#time.wallMs() / TICK_MS) * TICK_MS;
    node.ctimeMs = now;
    if (isContent) node.mtimeMs = now;
  }

  find(filePath: string): PlatterNode | undefined {
    let node: PlatterNode | undefined = this.root;
    for (const name of splitPath(filePath)) {
      if (node?.kind !== "folder") return undefined;
      node = node.names.get(name);
    }
    return node;
  }

  /** @throws SystemError unless there is such a folder. */
  folder(folderPath: string, call: string): FolderNode {
    const node = this.find(folderPath);
    if (node === undefined) throw new SystemError("ENOENT", call, folderPath);
    if (node.kind !== "folder") throw new SystemError("ENOTDIR", call, folderPath);
    return node;
  }

  /** Makes a node with a name, which must be free. */
  create(filePath: string, kind: PlatterNode["kind"], call = "open"): PlatterNode {
    const { folder, name } = this.#place(filePath, call);
    if (folder.names.has(name)) throw new SystemError("EEXIST", call, filePath);
    const ino = this.#inodes++;
    const node =
      kind === "file"
        ? new FileNode(ino)
        : kind === "folder"
          ? new FolderNode(ino)
          : new SocketNode(ino);
    this.#change([{ folder, name, node: this.#stamp(node) }]);
    return node;
  }

  rename(from: string, to: string): void {
    const source = this.#place(from, "rename");
    const target = this.#place(to, "rename");
    const node = source.folder.names.get(source.name);
    if (node === undefined) throw new SystemError("ENOENT", "rename", from);
    const old = target.folder.names.get(target.name);
    if (old === node) return;
    if (old?.kind === "folder" && old.names.size > 0)
      throw new SystemError("ENOTEMPTY", "rename", to);
    if (old !== undefined && (old.kind === "folder") !== (node.kind === "folder")) {
      throw new SystemError(old.kind === "folder" ? "EISDIR" : "ENOTDIR", "rename", to);
    }
    this.#change([
      { ...source, node: undefined },
      { ...target, node },
    ]);
  }

  link(from: string, to: string): void {
    const node = this.find(from);
    if (node === undefined) throw new SystemError("ENOENT", "link", from);
    if (node.kind === "folder") throw new SystemError("EPERM", "link", from);
    const target = this.#place(to, "link");
    if (target.folder.names.has(target.name)) throw new SystemError("EEXIST", "link", to);
    this.#change([{ ...target, node }]);
  }

  /** Removes a name, if there is one. */
  unlink(filePath: string): void {
    const node = this.find(filePath);
    if (node === undefined) return;
    if (node.kind === "folder") throw new SystemError("EISDIR", "unlink", filePath);
    this.#change([{ ...this.#place(filePath, "unlink"), node: undefined }]);
  }

  removeFolder(folderPath: string): void {
    if (this.folder(folderPath, "rmdir").names.size > 0) {
      throw new SystemError("ENOTEMPTY", "rmdir", folderPath);
    }
    this.#change([{ ...this.#place(folderPath, "rmdir"), node: undefined }]);
  }

  #place(filePath: string, call: string): { folder: FolderNode; name: string } {
    const folder = this.folder(path.dirname(filePath), call);
    return { folder, name: path.basename(filePath) };
  }

  #change(operation: NameOperation): void {
    for (const { folder, name, node } of operation) {
      const old = folder.names.get(name);
      if (old !== undefined) {
        old.nlink--;
        this.touch(old, false);
      }
      if (node === undefined) folder.names.delete(name);
      else {
        folder.names.set(name, node);
        node.nlink++;
        this.touch(node, false);
      }
      this.touch(folder);
    }
    this.#pending.push(operation);
  }

  /** How many operations on names precede now. */
  get pendingNames(): number {
    return this.#pending.length;
  }

  /** Makes the names in a folder durable, and what happened to other names before. */
  commitNames(folder: FolderNode): void {
    const last = this.#pending.findLastIndex((operation) =>
      operation.some((change) => change.folder === folder),
    );
    for (const operation of this.#pending.splice(0, last + 1)) {
      for (const change of operation) setName(change.folder.durableNames, change);
    }
  }

  /** Makes everything durable, as sync(1) does. */
  commitAll(): void {
    for (const operation of this.#pending.splice(0)) {
      for (const change of operation) setName(change.folder.durableNames, change);
    }
    for (const node of walk(this.root, (folder) => folder.names)) {
      if (node.kind === "file") node.commitAll();
    }
  }

  /**
   * Whether these bytes of the file survive every crash that could happen now: its name, its length and its
   * content.
   */
  keeps(filePath: string, bytes: Buffer, position: number): boolean {
    const node = this.durableNode(filePath);
    return node?.kind === "file" && node === this.find(filePath) && node.keeps(bytes, position);
  }

  /** What the path leads to after a cut that loses all it can. */
  durableNode(filePath: string): PlatterNode | undefined {
    let node: PlatterNode | undefined = this.root;
    for (const name of splitPath(filePath)) {
      if (node?.kind !== "folder") return undefined;
      node = node.durableNames.get(name);
    }
    return node;
  }

  /** What a process that starts now finds, after the last one was killed, or after a power cut. */
  crash(kind: "kill" | "cut", random: Random, cut: CutKind = "chance"): Platter {
    if (kind === "kill") return this;
    return this.#afterCut(random, cut);
  }

  #afterCut(random: Random, kind: CutKind): Platter {
    const choice: CutChoice = {
      steps: (count) =>
        kind === "nothing" ? 0 : kind === "everything" ? count : random.between(0, count),
      isWritten: () => kind === "everything" || (kind === "chance" && random.chance(0.5)),
    };
    const names = new Map<FolderNode, Map<string, PlatterNode>>();
    const namesOf = (folder: FolderNode) => {
      const found = names.get(folder) ?? new Map(folder.durableNames);
      names.set(folder, found);
      return found;
    };
    for (const operation of this.#pending.slice(0, choice.steps(this.#pending.length))) {
      for (const change of operation) setName(namesOf(change.folder), change);
    }
    const after = new Platter(this.#time, this.#inodes);
    const copies = new Map<PlatterNode, PlatterNode>([[this.root, after.root]]);
    for (const node of walk(this.root, namesOf)) {
      if (node.kind !== "folder") continue;
      const copy = copies.get(node) as FolderNode;
      for (const [name, child] of namesOf(node)) {
        const childCopy = copies.get(child) ?? copyNode(child, choice);
        copies.set(child, childCopy);
        childCopy.nlink++;
        copy.names.set(name, childCopy);
        copy.durableNames.set(name, childCopy);
      }
    }
    return after;
  }
}

/** The clock of the kernel's time stamps goes on by this much. */
const TICK_MS = 4;

function setName(names: Map<string, PlatterNode>, { name, node }: NameChange): void {
  if (node === undefined) names.delete(name);
  else names.set(name, node);
}

function copyNode(node: PlatterNode, choice: CutChoice): PlatterNode {
  let copy: PlatterNode;
  if (node.kind === "folder") copy = new FolderNode(node.ino);
  else if (node.kind === "other") copy = new SocketNode(node.ino);
  else {
    copy = new FileNode(node.ino);
    copy.load(node.afterCut(choice));
  }
  copy.mode = node.mode;
  copy.mtimeMs = node.mtimeMs;
  copy.ctimeMs = node.ctimeMs;
  return copy;
}

/** Every node once, a folder before what is in it. */
function* walk(
  root: FolderNode,
  namesOf: (folder: FolderNode) => Map<string, PlatterNode>,
): Generator<PlatterNode> {
  const seen = new Set<PlatterNode>([root]);
  for (const node of seen) {
    yield node;
    if (node.kind === "folder") for (const child of namesOf(node).values()) seen.add(child);
  }
}

function splitPath(filePath: string): string[] {
  return path.resolve("/", filePath).split("/").filter(Boolean);
}
