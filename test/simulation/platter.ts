/**
 * What is on a simulated disk: the files and folders that processes see, apart from what a power cut leaves.
 *
 * Invariants. The names in folders change by operations that are kept in order until a sync of the folder; a
 * cut keeps the first few of them, or any subset; a rename is one of them. A cut gives another platter, and
 * nothing that is done to the old one afterwards reaches it; a kill leaves the same. A program reaches the
 * platter only through a SimulatedDisk; a test uses it as another program would, which syncs nothing unless it
 * says so.
 */
import os from "node:os";
import path from "node:path";
import { BaseNode, type CutKind, chooseCount, FileNode, SECTOR_BYTES } from "./platter-file.ts";
import type { Random } from "./random.ts";
import { RuleBook, type RuleName } from "./rules.ts";

export { type CutKind, FileNode, SECTOR_BYTES } from "./platter-file.ts";

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

export type PlatterNode = FileNode | FolderNode | SocketNode;

/** The socket of a lock: only its name counts. */
export class SocketNode extends BaseNode {
  readonly kind = "other";
}

export class FolderNode extends BaseNode {
  readonly kind = "folder";
  readonly names = new Map<string, PlatterNode>();
  readonly durableNames = new Map<string, PlatterNode>();
}

interface NameChange {
  readonly folder: FolderNode;
  readonly name: string;
  readonly node: PlatterNode | undefined;
}

/** Changes of names that happen together. */
type NameOperation = readonly NameChange[];

export type RotKind = Extract<RuleName, `rot: ${string}`>;

/** Damage of what was durable. */
export interface Rot {
  readonly path: string;
  readonly offset: number;
  readonly bytes: number;
}

/** The clock of the kernel's time stamps goes on by this much. */
const TICK_MS = 4;

export class Platter {
  readonly root: FolderNode;
  readonly rules: RuleBook;
  /** How many bytes and nodes fit. */
  bytesMax = Number.POSITIVE_INFINITY;
  nodesMax = Number.POSITIVE_INFINITY;
  /** After a failure that only a restart of the machine ends. */
  isReadOnly = false;
  bytesUsed = 0;
  nodesUsed = 0;
  /** Receives a file that processes may see otherwise now, because a sync of it has failed. */
  onLoss: ((file: FileNode) => void) | undefined;
  readonly #time: TimeSource;
  #pending: NameOperation[] = [];
  #nextIno: bigint;
  #freeInos: bigint[] = [];
  #wasKilled = false;

  constructor(time: TimeSource, rules = new RuleBook(), nextIno = 2n) {
    this.#time = time;
    this.rules = rules;
    this.#nextIno = nextIno;
    this.root = this.#stamp(new FolderNode(1n));
  }

  #stamp<T extends PlatterNode>(node: T): T {
    node.mode = node.kind === "folder" ? 0o040700 : node.kind === "file" ? 0o100600 : 0o140600;
    this.touch(node);
    return node;
  }

  /** Notes that a file was changed now. */
  touch(node: PlatterNode, isContent = true): void {
    const isCoarse = this.rules.isOn("stamps: whole seconds");
    if (isCoarse) this.rules.count("stamps: whole seconds");
    const tick = isCoarse ? 1000 : TICK_MS;
    const now = Math.floor(this.#time.wallMs() / tick) * tick;
    node.ctimeMs = now;
    if (isContent) node.mtimeMs = now;
  }

  /** What the path leads to; `durableNames`: after a cut that loses all it can. */
  find(filePath: string, by: "names" | "durableNames" = "names"): PlatterNode | undefined {
    let node: PlatterNode | undefined = this.root;
    for (const name of splitPath(filePath)) {
      if (node?.kind !== "folder") return undefined;
      node = node[by].get(name);
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
  create(filePath: string, kind: PlatterNode["kind"], call = "open", random?: Random): PlatterNode {
    const { folder, name } = this.#place(filePath, call);
    if (folder.names.has(name)) throw new SystemError("EEXIST", call, filePath);
    this.#requireWritable(call, filePath);
    if (this.nodesUsed >= this.nodesMax) {
      this.rules.count("room: no inodes");
      throw new SystemError("ENOSPC", call, filePath);
    }
    const ino = this.#takeIno(random);
    const node =
      kind === "file"
        ? new FileNode(ino)
        : kind === "folder"
          ? new FolderNode(ino)
          : new SocketNode(ino);
    this.nodesUsed++;
    this.#change([{ folder, name, node: this.#stamp(node) }]);
    return node;
  }

  #takeIno(random: Random | undefined): bigint {
    const isAgain =
      random !== undefined &&
      this.#freeInos.length > 0 &&
      this.rules.fires("names: an inode number is used again", random);
    return isAgain ? (this.#freeInos.pop() as bigint) : this.#nextIno++;
  }

  rename(from: string, to: string): void {
    const source = this.#place(from, "rename");
    const target = this.#place(to, "rename");
    const node = source.folder.names.get(source.name);
    if (node === undefined) throw new SystemError("ENOENT", "rename", from);
    const old = target.folder.names.get(target.name);
    if (old !== undefined && (old.kind === "folder") !== (node.kind === "folder")) {
      throw new SystemError(old.kind === "folder" ? "EISDIR" : "ENOTDIR", "rename", to);
    }
    if (old?.kind === "folder" && old.names.size > 0) {
      throw new SystemError("ENOTEMPTY", "rename", to);
    }
    this.#requireWritable("rename", from);
    if (old === node) return;
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
    this.#requireWritable("link", from);
    this.#change([{ ...target, node }]);
  }

  /** Removes a name, if there is one. */
  unlink(filePath: string): void {
    const node = this.find(filePath);
    if (node === undefined) return;
    if (node.kind === "folder") throw new SystemError("EISDIR", "unlink", filePath);
    this.#requireWritable("unlink", filePath);
    this.#change([{ ...this.#place(filePath, "unlink"), node: undefined }]);
  }

  removeFolder(folderPath: string): void {
    if (this.folder(folderPath, "rmdir").names.size > 0) {
      throw new SystemError("ENOTEMPTY", "rmdir", folderPath);
    }
    this.#requireWritable("rmdir", folderPath);
    this.#change([{ ...this.#place(folderPath, "rmdir"), node: undefined }]);
  }

  #place(filePath: string, call: string): { folder: FolderNode; name: string } {
    const folder = this.folder(path.dirname(filePath), call);
    return { folder, name: path.basename(filePath) };
  }

  #requireWritable(call: string, filePath?: string): void {
    if (this.isReadOnly) throw new SystemError("EROFS", call, filePath);
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
      if (old?.nlink === 0 && old !== node && !operation.some((change) => change.node === old)) {
        this.#free(old);
      }
    }
    this.#pending.push(operation);
  }

  #free(node: PlatterNode): void {
    this.nodesUsed--;
    if (node.kind === "file") this.bytesUsed -= node.size;
    if (node.kind !== "file" || node.opens === 0) this.#freeInos.push(node.ino);
  }

  /**
   * Writes bytes as far as there is room, by whole sectors.
   *
   * @returns how many; fewer only if there is no room for more.
   * @throws SystemError `ENOSPC` if there is no room for any.
   */
  write(node: FileNode, bytes: Buffer, position: number): number {
    this.#requireWritable("write");
    const growth = Math.max(0, position + bytes.length - node.size);
    const room = node.nlink === 0 ? growth : Math.max(0, this.bytesMax - this.bytesUsed);
    // What does not fit begins with a block.
    const fits = bytes.length - (growth - room);
    const count = growth <= room ? bytes.length : fits - ((position + fits) % SECTOR_BYTES);
    if (count <= 0 && bytes.length > 0) {
      this.rules.count("room: no bytes");
      throw new SystemError("ENOSPC", "write");
    }
    if (count < bytes.length) this.rules.count("room: a short append, then none");
    if (node.nlink > 0) this.bytesUsed += Math.max(0, position + count - node.size);
    node.write(bytes.subarray(0, count), position);
    this.touch(node);
    return count;
  }

  truncate(node: FileNode, size: number): void {
    this.#requireWritable("ftruncate");
    if (node.nlink > 0) this.bytesUsed += size - node.size;
    node.truncate(size);
    this.touch(node);
  }

  /** A sync of a file fails. */
  failSync(node: FileNode, dirt: ReturnType<FileNode["dirt"]>, random: Random): void {
    const before = node.size;
    node.fail(dirt, random, this.rules);
    if (node.nlink > 0) this.bytesUsed += node.size - before;
    this.onLoss?.(node);
  }

  /** What a failed sync of a file lost leaves the cache. */
  dropLost(node: FileNode): void {
    node.dropLost(this.rules);
    this.onLoss?.(node);
  }

  /** Makes the names in a folder durable, and what happened to other names before, except with any subset. */
  commitNames(folder: FolderNode): void {
    const isOf = (operation: NameOperation) => operation.some((change) => change.folder === folder);
    if (this.rules.isOn("names: any subset")) {
      this.#commit(this.#pending.filter(isOf));
      this.#pending = this.#pending.filter((operation) => !isOf(operation));
    } else this.#commit(this.#pending.splice(0, this.#pending.findLastIndex(isOf) + 1));
  }

  /** A sync of a folder fails: the first few changes of names may be durable all the same. */
  failNames(random: Random): void {
    const count = chooseCount("chance", this.#pending.length, random);
    this.#commit(this.#pending.splice(0, count));
  }

  #commit(operations: readonly NameOperation[]): void {
    for (const operation of operations) {
      for (const change of operation) setName(change.folder.durableNames, change);
    }
  }

  /** Makes everything durable, as sync(1) does. */
  commitAll(): void {
    this.#commit(this.#pending.splice(0));
    for (const node of walk(this.root, (folder) => folder.names)) {
      if (node.kind === "file") node.commitAll();
    }
  }

  /**
   * Whether these bytes of the file survive every crash that could happen now: its name, its length and its
   * content.
   */
  keeps(filePath: string, bytes: Buffer, position: number): boolean {
    let node: PlatterNode | undefined = this.root;
    for (const name of splitPath(filePath)) {
      if (node?.kind !== "folder") return false;
      const folder: FolderNode = node;
      const next = folder.durableNames.get(name);
      if (next === undefined || next !== folder.names.get(name)) return false;
      const isChanging = this.#pending.some((operation) =>
        operation.some((change) => change.folder === folder && change.name === name),
      );
      if (isChanging) return false;
      node = next;
    }
    return node.kind === "file" && node.keeps(bytes, position);
  }

  /** Damages something durable: a bit or a whole sector of any file. `undefined`: there is nothing. */
  rot(filePath: string, kind: RotKind, random: Random): Rot | undefined {
    const node = this.find(filePath, "durableNames");
    if (node?.kind !== "file" || node.durableSize === 0) return undefined;
    this.rules.count(kind);
    if (kind === "rot: a bit") return { path: filePath, offset: node.flip(random), bytes: 1 };
    const sector = random.below(Math.ceil(node.durableSize / SECTOR_BYTES));
    if (kind === "rot: a sector of zeros") node.blank(sector);
    else node.bad.add(sector);
    return { path: filePath, offset: sector * SECTOR_BYTES, bytes: SECTOR_BYTES };
  }

  /** What a process that starts now finds: after a kill this very platter, after a power cut another one. */
  crash(kind: "kill" | "cut", random: Random, cut: CutKind = "chance"): Platter {
    if (kind === "cut") {
      if (this.#wasKilled && cut === "chance") this.rules.count("crash: kill, then cut");
      if (cut === "chance") this.rules.count("crash: cut");
      return this.#afterCut(random, cut);
    }
    this.rules.count("crash: kill");
    this.#wasKilled = true;
    return this;
  }

  /** The operations on names that a cut keeps. */
  #keptNames(random: Random, kind: CutKind): NameOperation[] {
    const isChance = kind === "chance";
    let kept: NameOperation[];
    if (isChance && this.#pending.length > 0 && this.rules.fires("names: any subset", random)) {
      kept = this.#pending.filter(() => random.chance(0.5));
    } else kept = this.#pending.slice(0, chooseCount(kind, this.#pending.length, random));
    if (!isChance || kept.length === this.#pending.length) return kept;
    if (!this.rules.isOn("names: the last ones are lost")) return this.#pending;
    this.rules.count("names: the last ones are lost");
    const isAcross = ([one, other]: NameOperation) =>
      other !== undefined && one?.folder !== other.folder;
    if (this.#pending.some((operation) => isAcross(operation) && !kept.includes(operation))) {
      this.rules.count("names: a rename across folders is lost");
    }
    return kept;
  }

  #afterCut(random: Random, kind: CutKind): Platter {
    const names = new Map<FolderNode, Map<string, PlatterNode>>();
    for (const operation of this.#keptNames(random.fork("names"), kind)) {
      for (const change of operation) {
        const of = names.get(change.folder) ?? new Map(change.folder.durableNames);
        names.set(change.folder, of);
        setName(of, change);
      }
    }
    const namesOf = (folder: FolderNode) => names.get(folder) ?? folder.durableNames;
    const after = new Platter(this.#time, this.rules, this.#nextIno);
    after.bytesMax = this.bytesMax;
    after.nodesMax = this.nodesMax;
    after.onLoss = this.onLoss;
    const copies = new Map<PlatterNode, PlatterNode>([[this.root, after.root]]);
    for (const node of walk(this.root, namesOf)) {
      if (node.kind !== "folder") continue;
      const copy = copies.get(node) as FolderNode;
      for (const [name, child] of namesOf(node)) {
        let childCopy = copies.get(child);
        if (childCopy === undefined) {
          childCopy = copyNode(child, kind, random.fork(`inode ${child.ino}`), this.rules);
          copies.set(child, childCopy);
          after.nodesUsed++;
          if (childCopy.kind === "file") after.bytesUsed += childCopy.size;
        }
        childCopy.nlink++;
        copy.names.set(name, childCopy);
        copy.durableNames.set(name, childCopy);
      }
    }
    return after;
  }
}

function setName(names: Map<string, PlatterNode>, { name, node }: NameChange): void {
  if (node === undefined) names.delete(name);
  else names.set(name, node);
}

function copyNode(node: PlatterNode, kind: CutKind, random: Random, rules: RuleBook): PlatterNode {
  const copy =
    node.kind === "folder"
      ? new FolderNode(node.ino)
      : node.kind === "other"
        ? new SocketNode(node.ino)
        : node.afterCut(kind, random, rules);
  copy.mode = node.mode;
  copy.mtimeMs = node.mtimeMs;
  copy.ctimeMs = node.ctimeMs;
  return copy;
}

/** Every node once, a folder before what is in it. */
function* walk(
  root: FolderNode,
  namesOf: (folder: FolderNode) => ReadonlyMap<string, PlatterNode>,
): Generator<PlatterNode> {
  const seen = new Set<PlatterNode>([root]);
  for (const node of seen) {
    yield node;
    if (node.kind === "folder") for (const child of namesOf(node).values()) seen.add(child);
  }
}

const SPLIT = new Map<string, readonly string[]>();
const SPLIT_MAX = 1000;

function splitPath(filePath: string): readonly string[] {
  let names = SPLIT.get(filePath);
  if (names === undefined) {
    names = path.resolve("/", filePath).split("/").filter(Boolean);
    if (SPLIT.size >= SPLIT_MAX) SPLIT.clear();
    SPLIT.set(filePath, names);
  }
  return names;
}
