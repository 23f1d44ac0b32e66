/**
 * The disk as one process of a simulation sees it: the port of `src/log/disk.ts` over a platter.
 *
 * Invariants. Each operation has three moments: it is issued, it is applied (every process sees what it did),
 * and it returns (what it promised is durable). The process may die at each of them. Then its operations never
 * return, and those that return no promise throw; what was under way may still land, in part.
 */
import path from "node:path";
import type {
  Disk,
  FileState,
  FolderEntry,
  NamedText,
  OpenFile,
  ReadDone,
  WritableFile,
} from "../../src/log/disk.ts";
import type { SimulatedClock } from "./clock.ts";
import {
  type Dirt,
  type FileNode,
  type Platter,
  type PlatterNode,
  SystemError,
} from "./platter.ts";
import { hashText, type Random } from "./random.ts";
import type { RuleBook } from "./rules.ts";

export interface DiskOptions {
  readonly platter: Platter;
  readonly clock: SimulatedClock;
  readonly random: Random;
  readonly rules: RuleBook;
}

/** What a process gets that died in the middle of a call. Nobody sees it but the dead. */
export class DeadError extends Error {}

export type MomentKind = "issued" | "applied" | "returned";

/** An operation that has not returned. */
interface Operation {
  readonly call: string;
  readonly filePath: string;
  readonly random: Random;
}

interface Work<T> {
  apply(random: Random): T;
  /** Makes durable what was promised. */
  finish?(value: T): void;
  /** What of it happens if the process dies before it was applied. */
  land?(random: Random): void;
}

const LATENCY_MS = 0.1;

export class SimulatedDisk implements Disk {
  readonly platter: Platter;
  /** Resolves when the process has died. */
  readonly crashed: Promise<void>;
  /** How many moments there were. */
  moments = 0;
  isDead = false;
  /** Receives each moment, before a crash at it. */
  onMoment: ((kind: MomentKind, call: string, filePath: string) => void) | undefined;
  readonly clock: SimulatedClock;
  readonly rules: RuleBook;
  readonly #random: Random;
  readonly #flying = new Map<Operation, Work<unknown>>();
  readonly #calls = new Map<string, number>();
  #crashAt = Number.POSITIVE_INFINITY;
  #trace = 0;
  #reportCrash: () => void = () => {};

  constructor({ platter, clock, random, rules }: DiskOptions) {
    this.platter = platter;
    this.clock = clock;
    this.rules = rules;
    this.#random = random.fork("disk");
    this.crashed = new Promise((resolve) => {
      this.#reportCrash = resolve;
    });
  }

  /** Has the process die at this moment, counted from 1. */
  crashAt(moment: number): void {
    this.#crashAt = moment;
  }

  /** A hash of all moments and their times. */
  get trace(): number {
    return this.#trace;
  }

  /** The process dies now; the platter stays as it is from here on. */
  die(): void {
    if (this.isDead) return;
    this.isDead = true;
    for (const [{ random }, work] of this.#flying) work.land?.(random.fork("landing"));
    this.#flying.clear();
    this.#reportCrash();
  }

  #begin(call: string, filePath: string): Operation {
    if (this.isDead) throw new DeadError(call);
    const key = `${call} ${filePath}`;
    const count = (this.#calls.get(key) ?? 0) + 1;
    this.#calls.set(key, count);
    return { call, filePath, random: this.#random.fork(`${key} ${count}`) };
  }

  /** Returns false if the process has died at it. */
  #passes(kind: MomentKind, { call, filePath }: Operation): boolean {
    this.moments++;
    const [hash] = hashText(`${kind} ${call} ${filePath} ${this.clock.steadyMs()}`);
    this.#trace = (Math.imul(this.#trace, 31) + hash) >>> 0;
    this.onMoment?.(kind, call, filePath);
    if (this.moments >= this.#crashAt) this.die();
    return !this.isDead;
  }

  /** An operation in the turn of its call. @internal */
  now<T>(call: string, filePath: string, apply: (random: Random) => T): T {
    const operation = this.#begin(call, filePath);
    if (!this.#passes("issued", operation)) throw new DeadError(call);
    const value = apply(operation.random.fork("apply"));
    if (!this.#passes("applied", operation)) throw new DeadError(call);
    if (!this.#passes("returned", operation)) throw new DeadError(call);
    return value;
  }

  /** An operation that takes its time. @internal */
  later<T>(call: string, filePath: string, work: Work<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.isDead) return;
      const operation = this.#begin(call, filePath);
      const { random } = operation;
      this.#flying.set(operation, work as Work<unknown>);
      if (!this.#passes("issued", operation)) return;
      const settle = (done: () => void) => {
        this.clock.after(random.exponential(LATENCY_MS), () => {
          if (this.isDead) return;
          done();
        });
      };
      this.clock.after(random.exponential(LATENCY_MS), () => {
        if (this.isDead) return;
        this.#flying.delete(operation);
        let value: T;
        try {
          value = work.apply(random.fork("apply"));
        } catch (error) {
          return settle(() => {
            if (this.#passes("returned", operation)) reject(error);
          });
        }
        if (!this.#passes("applied", operation)) return;
        settle(() => {
          work.finish?.(value);
          if (this.#passes("returned", operation)) resolve(value);
        });
      });
    });
  }

  #openNode(filePath: string): FileNode {
    const node = this.platter.find(filePath);
    if (node === undefined) throw new SystemError("ENOENT", "open", filePath);
    if (node.kind === "file") return node;
    const found = node.kind === "folder" ? "a folder" : "a device";
    throw new Error(`expected a regular file, got ${found}`);
  }

  open(filePath: string): Promise<OpenFile> {
    return this.later("open", filePath, {
      apply: () => new SimulatedFile(this, filePath, this.#openNode(filePath)),
    });
  }

  openForChanges(filePath: string): Promise<WritableFile> {
    const make = () => {
      if (this.platter.find(filePath) === undefined) this.platter.create(filePath, "file");
    };
    return this.later("openForChanges", filePath, {
      apply: () => {
        make();
        return new SimulatedFile(this, filePath, this.#openNode(filePath));
      },
      land: (random) => {
        if (random.chance(0.5)) attempt(make);
      },
    });
  }

  async openText(filePath: string, chunkBytes: number): Promise<NamedText | undefined> {
    const node = await this.later("openText", filePath, {
      apply: () => {
        const found = this.platter.find(filePath);
        if (found === undefined) throw new SystemError("ENOENT", "open", filePath);
        return found;
      },
    });
    if (node.kind !== "file") return undefined;
    const file = new SimulatedFile(this, filePath, node);
    return { chunks: readChunks(file, chunkBytes), bytes: node.size };
  }

  find(filePath: string): FileState | undefined {
    return this.now("find", filePath, () => stateOf(this.platter.find(filePath)));
  }

  findEntry(filePath: string): FileState | undefined {
    return this.now("findEntry", filePath, () => stateOf(this.platter.find(filePath)));
  }

  findLater(filePath: string): Promise<FileState | undefined> {
    return this.later("findLater", filePath, {
      apply: () => stateOf(this.platter.find(filePath)),
    });
  }

  realPath(filePath: string): string {
    return this.now("realPath", filePath, () => {
      if (this.platter.find(filePath) === undefined) {
        throw new SystemError("ENOENT", "realpath", filePath);
      }
      return path.resolve(filePath);
    });
  }

  list(folder: string): FolderEntry[] {
    return this.now("list", folder, (random) => {
      const { names } = this.platter.folder(folder, "scandir");
      return random.shuffle([...names].map(([name, { kind }]) => ({ name, kind })));
    });
  }

  rename(from: string, to: string): void {
    this.now("rename", `${from} ${to}`, () => this.platter.rename(from, to));
  }

  link(from: string, to: string): void {
    this.now("link", `${from} ${to}`, () => this.platter.link(from, to));
  }

  unlink(filePath: string): void {
    this.now("unlink", filePath, () => this.platter.unlink(filePath));
  }

  makeFolder(folder: string): void {
    this.now("makeFolder", folder, () => this.platter.create(folder, "folder", "mkdir"));
  }

  removeFolder(folder: string): void {
    this.now("removeFolder", folder, () => this.platter.removeFolder(folder));
  }

  async syncFolder(folder: string): Promise<void> {
    await this.later("syncFolder", folder, {
      apply: () => this.platter.folder(folder, "open"),
      finish: (node) => this.platter.commitNames(node),
    });
  }

  holds(filePath: string, bytes: Buffer, position: number): Promise<boolean> {
    return this.later("holds", filePath, {
      apply: () => {
        const node = this.platter.find(filePath);
        if (node?.kind !== "file") return true;
        return node.durable.subarray(position, position + bytes.length).equals(bytes);
      },
    });
  }

  fileSystem(folder: string): number {
    return this.now("fileSystem", folder, () => {
      this.platter.folder(folder, "statfs");
      return EXT4;
    });
  }
}

/** Its magic number. */
const EXT4 = 0xef53;

class SimulatedFile implements WritableFile {
  readonly #disk: SimulatedDisk;
  readonly #path: string;
  readonly #node: FileNode;
  #isOpen = true;

  constructor(disk: SimulatedDisk, filePath: string, node: FileNode) {
    this.#disk = disk;
    this.#path = filePath;
    this.#node = node;
  }

  #use(call: string): FileNode {
    if (!this.#isOpen) throw new SystemError("EBADF", call);
    return this.#node;
  }

  state(): FileState {
    return this.#disk.now("state", this.#path, () => stateOf(this.#use("fstat")) as FileState);
  }

  read(buffer: Buffer, start: number, bytes: number, position: number, done: ReadDone): void {
    this.#disk
      .later("read", this.#path, {
        apply: () => this.#use("read").read(buffer, start, bytes, position),
      })
      .then(
        (got) => done(null, got),
        (cause) => done(cause, 0),
      );
  }

  readNow(buffer: Buffer, position: number): number {
    return this.#disk.now("readNow", this.#path, () =>
      this.#use("read").read(buffer, 0, buffer.length, position),
    );
  }

  async append(bytes: Buffer, start: number): Promise<number> {
    const write = (end: number): Dirt => {
      const node = this.#use("write");
      const position = node.size;
      node.write(bytes.subarray(start, end), position);
      this.#disk.platter.touch(node);
      return node.dirtOf(position, position + end - start);
    };
    await this.#disk.later("append", this.#path, {
      apply: () => write(bytes.length),
      finish: (dirt) => this.#node.commit(dirt),
      land: (random) => attempt(() => write(random.between(start, bytes.length))),
    });
    return bytes.length - start;
  }

  async overwrite(bytes: Buffer, start: number, position: number): Promise<number> {
    const write = (end: number) => {
      const node = this.#use("write");
      node.write(bytes.subarray(start, end), position);
      this.#disk.platter.touch(node);
    };
    await this.#disk.later("overwrite", this.#path, {
      apply: () => write(bytes.length),
      land: (random) => attempt(() => write(random.between(start, bytes.length))),
    });
    return bytes.length - start;
  }

  truncate(bytes: number): void {
    this.#disk.now("truncate", this.#path, () => {
      this.#use("ftruncate").truncate(bytes);
      this.#disk.platter.touch(this.#node);
    });
  }

  async sync(): Promise<void> {
    await this.#disk.later("sync", this.#path, {
      apply: () => this.#use("fsync").dirt(),
      finish: (dirt) => this.#node.commit(dirt),
    });
  }

  close(): Promise<void> {
    return this.#disk.later("close", this.#path, {
      apply: () => {
        this.#use("close");
        this.#isOpen = false;
      },
    });
  }
}

/** Does what a dead process had begun, if it is possible. */
function attempt(work: () => void): void {
  try {
    work();
  } catch {}
}

async function* readChunks(file: OpenFile, chunkBytes: number): AsyncGenerator<Buffer> {
  try {
    for (let position = 0; ; ) {
      const chunk = Buffer.alloc(chunkBytes);
      const at = position;
      const got = await new Promise<number>((resolve, reject) => {
        file.read(chunk, 0, chunkBytes, at, (cause, bytes) =>
          cause === null ? resolve(bytes) : reject(cause),
        );
      });
      if (got === 0) return;
      position += got;
      yield chunk.subarray(0, got);
    }
  } finally {
    await file.close();
  }
}

function stateOf(node: PlatterNode | undefined): FileState | undefined {
  return node === undefined ? undefined : new SimulatedState(node);
}

/** The number of the only device. */
const DEVICE = 64n;

class SimulatedState implements FileState {
  readonly dev = DEVICE;
  readonly ino: bigint;
  readonly size: bigint;
  readonly nlink: bigint;
  readonly mode: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
  readonly ctimeMs: bigint;
  readonly #kind: PlatterNode["kind"];

  constructor(node: PlatterNode) {
    this.ino = node.ino;
    this.size = BigInt(node.kind === "file" ? node.size : 0);
    this.nlink = BigInt(node.nlink);
    this.mode = BigInt(node.mode);
    this.mtimeNs = BigInt(node.mtimeMs) * 1_000_000n;
    this.ctimeMs = BigInt(node.ctimeMs);
    this.ctimeNs = this.ctimeMs * 1_000_000n;
    this.#kind = node.kind;
  }

  isFile(): boolean {
    return this.#kind === "file";
  }

  isDirectory(): boolean {
    return this.#kind === "folder";
  }

  isSymbolicLink(): boolean {
    return false;
  }
}
